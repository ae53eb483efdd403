//! The record of an approval.

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
    /// Of the deployment.
    pub number: i64,
    pub pipeline: PipelineId,
    pub stage: String,
    /// `None`: what waits is the stage itself.
    pub step: Option<StepRunId>,
    pub rule: Requires,
    /// How many people have to approve, as of its last change: authors who are no members raise it.
    pub needed: u32,
    /// What people should look at before they answer.
    pub message: Option<String>,
    /// Of everything it was asked for.
    pub digest: String,
    /// Oldest first, one per person.
    pub votes: Vec<Vote>,
    pub status: Status,
    pub requested_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    /// Rises by one with every change.
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
    /// A yes that no longer counted when the approval ended.
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
    /// What it was asked for is not what would be done now.
    Changed,
    /// Nothing waits for it any more.
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
    /// People who have said yes. Whether that counts, [`super::Electorate::tally`] says.
    pub fn yes(&self) -> BTreeSet<UserId> {
        self.votes.iter().filter(|vote| vote.choice == Choice::Approve).map(|vote| vote.person).collect()
    }

    /// How many people have said yes, without votes that are void.
    pub fn given(&self) -> usize {
        self.votes.iter().filter(|vote| vote.choice == Choice::Approve && !vote.is_void).count()
    }

    /// The vote that ended it with a no.
    pub fn rejection(&self) -> Option<&Vote> {
        self.votes.iter().find(|vote| vote.choice == Choice::Reject)
    }
}
