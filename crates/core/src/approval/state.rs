//! The state of an approval.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::event::Actor;
use crate::id::{ApprovalId, DeploymentId, PipelineId, StepRunId, UserId};
use crate::name::Reason;
use crate::pipeline::model::ApprovalPolicy;
use crate::time::Timestamp;

#[derive(Debug, Clone, PartialEq)]
pub struct Approval {
    pub id: ApprovalId,
    pub deployment: DeploymentId,
    /// The number of the deployment.
    pub number: i64,
    pub pipeline: PipelineId,
    pub stage: String,
    /// `None` if the approval is for the stage itself.
    pub step: Option<StepRunId>,
    pub rule: ApprovalPolicy,
    /// Number of approvals required when the record last changed. Unknown authors raise it.
    pub needed: u32,
    /// A note for the approvers.
    pub message: Option<String>,
    /// Digest of the content to be approved.
    pub digest: String,
    /// Oldest first, one per person.
    pub votes: Vec<RecordedVote>,
    pub status: ApprovalState,
    pub requested_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    /// Increases by one with every change.
    pub version: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedVote {
    pub by: Actor,
    /// The person behind the account; for a service account, its owner.
    pub person: UserId,
    pub choice: ApprovalChoice,
    pub comment: Option<Reason>,
    pub at: Timestamp,
    /// The vote was an approval but did not count when voting ended.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub is_void: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalChoice {
    Approve,
    Reject,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalState {
    Pending,
    Approved,
    Rejected,
    Expired,
    Lapsed(LapseCause),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LapseCause {
    /// The content changed.
    Changed,
    /// The deployment or stage has ended, so the approval is no longer needed.
    Over,
}

impl ApprovalChoice {
    pub const fn as_str(self) -> &'static str {
        match self {
            ApprovalChoice::Approve => "approve",
            ApprovalChoice::Reject => "reject",
        }
    }
}

impl ApprovalState {
    pub const fn as_str(self) -> &'static str {
        match self {
            ApprovalState::Pending => "pending",
            ApprovalState::Approved => "approved",
            ApprovalState::Rejected => "rejected",
            ApprovalState::Expired => "expired",
            ApprovalState::Lapsed(_) => "lapsed",
        }
    }
}

impl LapseCause {
    pub const ALL: [LapseCause; 2] = [LapseCause::Changed, LapseCause::Over];

    pub const fn as_str(self) -> &'static str {
        match self {
            LapseCause::Changed => "changed",
            LapseCause::Over => "over",
        }
    }
}

impl Approval {
    /// People who voted to approve. [`super::ApprovalElectorate::tally`] decides which of these votes count.
    pub fn approvers(&self) -> BTreeSet<UserId> {
        self.votes
            .iter()
            .filter(|vote| vote.choice == ApprovalChoice::Approve)
            .map(|vote| vote.person)
            .collect()
    }

    /// Number of approvals that are not void.
    pub fn valid_approvals(&self) -> usize {
        self.votes.iter().filter(|vote| vote.choice == ApprovalChoice::Approve && !vote.is_void).count()
    }

    /// The vote that rejected the approval.
    pub fn rejection(&self) -> Option<&RecordedVote> {
        self.votes.iter().find(|vote| vote.choice == ApprovalChoice::Reject)
    }
}
