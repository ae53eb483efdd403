//! Pull requests for suggested fixes.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ReplayableBody;
use crate::event::WireActor;

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FixPullRequest {
    /// Analysis that suggested the fix.
    #[schema(example = "anl_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub analysis_id: String,
    pub repository_id: String,
    /// `opening`: being created. `open`: waiting for review. `pushed`: the branch was pushed, but no pull request was
    /// opened
    /// because Berth does not support the forge's API or the credential does not grant access to it. `failed`: see
    /// `error`; create it again. `merged`, `closed`: merged or closed on the forge, or the branch was merged or
    /// deleted; a new one can be created.
    pub state: FixPullRequestState,
    #[schema(example = "berth/fix-5f0c2a9b1d3e")]
    pub branch: String,
    /// The branch's only commit; null until it is pushed.
    pub commit_id: Option<String>,
    /// Number of the pull request on the forge.
    pub number: Option<i64>,
    /// URL of the pull request on the forge.
    pub url: Option<String>,
    pub error: Option<String>,
    /// When it was merged or closed.
    #[schema(format = DateTime)]
    pub ended_at: Option<String>,
    /// Who requested the fix. Counts as an author of the commit when it is approved.
    pub asked_by: WireActor,
    #[schema(format = DateTime)]
    pub created_at: String,
    #[schema(format = DateTime)]
    pub updated_at: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FixPullRequestState {
    Opening,
    Open,
    Pushed,
    Failed,
    Merged,
    Closed,
}

impl ReplayableBody for FixPullRequest {}
