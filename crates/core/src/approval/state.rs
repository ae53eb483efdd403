//! The state of an approval.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::event::Actor;
use crate::id::{ApprovalId, DeploymentId, PipelineId, StepRunId, UserId};
use crate::name::Reason;
use crate::pipeline::model::Requires;
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
    pub rule: Requires,
    /// Number of approvals required at its last change; unknown authors raise it.
    pub needed: u32,
    /// A note for the approvers.
    pub message: Option<String>,
    /// Digest of the content to approve.
    pub digest: String,
    /// Oldest first, one per person.
    pub votes: Vec<Vote>,
    pub status: Status,
    pub requested_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    /// Increases by one with every change.
    pub version: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vote {
    pub by: Actor,
    /// The person behind the account: the owner of a service account.
    pub person: UserId,
    pub choice: Choice,
    pub comment: Option<Reason>,
    pub at: Timestamp,
    /// An approval that did not count when voting ended.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub is_void: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    Approve,
    Reject,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    Pending,
    Approved,
    Rejected,
    Expired,
    Lapsed(Lapse),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lapse {
    /// The content changed.
    Changed,
    /// The deployment or stage has ended.
    Over,
}

impl Choice {
    pub const fn as_str(self) -> &'static str {
        match self {
            Choice::Approve => "approve",
            Choice::Reject => "reject",
        }
    }
}

impl Status {
    pub const fn as_str(self) -> &'static str {
        match self {
            Status::Pending => "pending",
            Status::Approved => "approved",
            Status::Rejected => "rejected",
            Status::Expired => "expired",
            Status::Lapsed(_) => "lapsed",
        }
    }
}

impl Lapse {
    pub const ALL: [Lapse; 2] = [Lapse::Changed, Lapse::Over];

    pub const fn as_str(self) -> &'static str {
        match self {
            Lapse::Changed => "changed",
            Lapse::Over => "over",
        }
    }
}

impl Approval {
    /// People who approved. [`super::Electorate::tally`] says which of them count.
    pub fn yes(&self) -> BTreeSet<UserId> {
        self.votes.iter().filter(|vote| vote.choice == Choice::Approve).map(|vote| vote.person).collect()
    }

    /// Number of approvals that are not void.
    pub fn given(&self) -> usize {
        self.votes.iter().filter(|vote| vote.choice == Choice::Approve && !vote.is_void).count()
    }

    /// The vote that rejected it.
    pub fn rejection(&self) -> Option<&Vote> {
        self.votes.iter().find(|vote| vote.choice == Choice::Reject)
    }
}
