//! Approvals: what people are asked, and what they answered.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Replay;
use crate::event::Actor;

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Approval {
    #[schema(example = "apr_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub id: String,
    pub status: ApprovalStatus,
    pub deployment_id: String,
    pub pipeline_id: String,
    pub stage: String,
    /// The step that asks; null when the stage itself does.
    pub step_id: Option<String>,
    /// What to look at before answering.
    pub message: Option<String>,
    pub commit_id: Option<String>,
    /// Of everything that is to be approved: commit, definition, what the build left, inputs and stage.
    pub digest: String,
    pub rule: ApprovalRule,
    /// How many people have to approve: `rule.approvals`, and one more while part of the change is by unknown authors.
    pub required: u32,
    /// Why `required` is more than the rule says.
    pub raised_because: Option<String>,
    /// How many people have approved so far. While it waits, only those count who may approve at this moment.
    pub given: usize,
    /// Members who may not approve because they wrote or started what is to be approved. Only while it waits.
    pub excluded: Vec<String>,
    /// Why it cannot be approved as things are, and what to do. Null: it can, or it does not wait any more.
    pub unreachable: Option<String>,
    /// Oldest first.
    pub votes: Vec<ApprovalVote>,
    #[schema(format = DateTime)]
    pub requested_at: String,
    #[schema(format = DateTime)]
    pub expires_at: Option<String>,
    #[schema(format = DateTime)]
    pub ended_at: Option<String>,
    /// Why it lapsed: `changed`, what it was for is another thing now; `over`, nothing waits for it any more.
    #[schema(value_type = Option<LapseReason>)]
    pub lapsed_because: Option<String>,
}

impl Replay for Approval {}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalStatus {
    Pending,
    Approved,
    Rejected,
    Expired,
    Lapsed,
}

/// Statuses to list approvals by.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
pub enum ApprovalStatusFilter {
    Pending,
    Approved,
    Rejected,
    Expired,
    Lapsed,
    All,
}

#[derive(ToSchema)]
#[schema(as = ApprovalLapseReason, rename_all = "snake_case")]
pub enum LapseReason {
    Changed,
    Over,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRule {
    /// Different people, however many accounts they have.
    pub approvals: u32,
    /// Roles (this one or a higher one) and e-mail addresses; empty: everybody who may decide.
    pub from: Vec<String>,
    /// False: not by people who wrote, committed or co-authored part of the change, nor by those who started or retried the deployment.
    pub self_approval: bool,
    pub timeout_seconds: Option<u64>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalVote {
    pub actor: Actor,
    pub choice: VoteChoice,
    /// False: a yes of a person who has left, has another role, or has become an author since.
    pub counts: bool,
    pub comment: Option<String>,
    #[schema(format = DateTime)]
    pub at: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum VoteChoice {
    Approve,
    Reject,
}

#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = ApprovalApprove)]
pub struct Approve {
    #[schema(max_length = 4000)]
    pub comment: Option<String>,
}
