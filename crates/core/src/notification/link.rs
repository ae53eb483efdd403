//! Actions that a message offers to its recipient.

use super::{NotificationCause, NotificationSubject};

/// What the recipient of a message can do with a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkAction {
    Approve,
    Reject,
    /// Extend the session by its original length.
    Extend,
    /// End the session.
    Release,
    /// End the session if a member still waits for the environment.
    Yield,
}

impl LinkAction {
    pub const ALL: [LinkAction; 5] =
        [LinkAction::Approve, LinkAction::Reject, LinkAction::Extend, LinkAction::Release, LinkAction::Yield];

    pub const fn as_str(self) -> &'static str {
        match self {
            LinkAction::Approve => "approve",
            LinkAction::Reject => "reject",
            LinkAction::Extend => "extend",
            LinkAction::Release => "release",
            LinkAction::Yield => "yield",
        }
    }

    /// The label of the link and of the button that confirms it.
    pub const fn label(self) -> &'static str {
        match self {
            LinkAction::Approve => "Approve",
            LinkAction::Reject => "Reject",
            LinkAction::Extend => "Extend",
            LinkAction::Release => "Release",
            LinkAction::Yield => "Yield",
        }
    }

    /// Whether the action is a vote on an approval. The others are about a session.
    pub const fn is_vote(self) -> bool {
        matches!(self, LinkAction::Approve | LinkAction::Reject)
    }

    /// Returns the id of the approval or session that the action is done to.
    pub fn target_id(self, subject: &NotificationSubject) -> Option<&str> {
        if self.is_vote() { subject.approval_id.as_deref() } else { subject.session_id.as_deref() }
    }

    /// Returns the actions that a notification offers. `is_own_account` is whether the recipient holds the session with
    /// their own account; a session of a service account or agent is operated with that account.
    pub fn of_notification(
        cause: NotificationCause,
        subject: &NotificationSubject,
        is_own_account: bool,
    ) -> &'static [LinkAction] {
        let has_session = is_own_account && subject.session_id.is_some();
        match cause {
            NotificationCause::ApprovalRequested if subject.approval_id.is_some() => {
                &[LinkAction::Approve, LinkAction::Reject]
            }
            NotificationCause::QueueJoined if has_session => &[LinkAction::Yield],
            NotificationCause::SessionExpiring if has_session => &[LinkAction::Extend, LinkAction::Release],
            _ => &[],
        }
    }
}
