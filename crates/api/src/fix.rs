//! Pull requests of suggested fixes.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Replay;
use crate::event::Actor;

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FixPullRequest {
    /// Whose fix it is.
    #[schema(example = "anl_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub analysis_id: String,
    pub repository_id: String,
    /// `opening`: being made. `open`: a pull request waits for a person. `pushed`: the remote has no API that Berth
    /// knows, or the credential is none for it; the branch is there. `failed`: see `error`, and ask again. `merged`,
    /// `closed`: a person did that, or the branch is in the tracked one, or gone; another may be asked for.
    pub state: FixPullRequestState,
    #[schema(example = "berth/fix-5f0c2a9b1d3e")]
    pub branch: String,
    /// The one commit on it, once it is pushed.
    pub commit_id: Option<String>,
    /// As its forge counts them.
    pub number: Option<i64>,
    /// Where people look at it.
    pub url: Option<String>,
    pub error: Option<String>,
    /// When it was merged or closed.
    #[schema(format = DateTime)]
    pub ended_at: Option<String>,
    /// Counts as the author of the commit.
    pub asked_by: Actor,
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

impl Replay for FixPullRequest {}
