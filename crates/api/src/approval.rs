//! Approvals and votes.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ReplayableBody;
use crate::commit::WireCommit;
use crate::event::WireActor;

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Approval)]
pub struct WireApproval {
    #[schema(example = "apr_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub id: String,
    pub status: ApprovalStatus,
    pub deployment_id: String,
    pub pipeline_id: String,
    pub stage: String,
    /// Step that requires the approval; null if the stage itself does.
    pub step_id: Option<String>,
    /// Instructions for approvers.
    pub message: Option<String>,
    pub commit_id: Option<String>,
    /// The commit to approve; null for pipelines without a repository.
    pub commit: Option<WireCommit>,
    /// URL of the forge's comparison with the commit that is deployed in the stage, or was until the approval ended;
    /// null if there is none, it is the same commit, or the forge is unknown.
    pub compare_url: Option<String>,
    /// Digest of what is approved: commit, definition, build artifacts, inputs and stage.
    pub digest: String,
    pub rule: ApprovalRule,
    /// Number of people who must approve: `rule.approvals`, plus one while part of the change has unknown authors.
    pub required: u32,
    /// Why `required` is higher than `rule.approvals`.
    pub raised_because: Option<String>,
    /// Number of people who have approved. While pending, counts only those who are currently eligible.
    pub given: usize,
    /// Members who may not approve because they wrote or started the change. Empty once the approval has ended.
    pub excluded: Vec<String>,
    /// Why too few members can approve, and what to do about it. Null if enough can, or the approval has ended.
    pub unreachable: Option<String>,
    /// Oldest first.
    pub votes: Vec<ApprovalVote>,
    #[schema(format = DateTime)]
    pub requested_at: String,
    #[schema(format = DateTime)]
    pub expires_at: Option<String>,
    #[schema(format = DateTime)]
    pub ended_at: Option<String>,
    /// Why it lapsed: `changed`, what was to be approved has changed; `over`, nothing waits for the approval any more.
    #[schema(value_type = Option<ApprovalLapseReason>)]
    pub lapsed_because: Option<String>,
}

impl ReplayableBody for WireApproval {}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalStatus {
    Pending,
    Approved,
    Rejected,
    Expired,
    Lapsed,
}

/// Status to filter approvals by.
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
pub enum ApprovalLapseReason {
    Changed,
    Over,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRule {
    /// Number of distinct people who must approve. Several accounts of one person count once.
    pub approvals: u32,
    /// Eligible roles (or higher) and e-mail addresses. If empty, every member with `approvals:decide` is eligible.
    pub from: Vec<String>,
    /// Whether people who wrote, committed or co-authored part of the change, or started or retried the deployment, may
    /// approve it.
    pub self_approval: bool,
    pub timeout_seconds: Option<u64>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalVote {
    pub actor: WireActor,
    pub choice: VoteChoice,
    /// False for an approval by a person who has since left, changed role, or become an author of the change.
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
pub struct ApprovalApprove {
    #[schema(max_length = 4000)]
    pub comment: Option<String>,
}
