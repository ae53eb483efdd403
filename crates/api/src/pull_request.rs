//! Pull requests of connected repositories, and the environments that they use or wait for.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ReplayableBody;
use crate::deployment::DeploymentStatus;

/// A pull request as its forge describes it, and what Berth does for it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = PullRequest)]
pub struct WirePullRequest {
    #[schema(example = "rep_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub repository_id: String,
    #[schema(example = 42)]
    pub number: i64,
    #[schema(example = "Dark mode")]
    pub title: String,
    /// URL of its page on the forge.
    #[schema(example = "https://git.acme.test/acme/shop/pull/42")]
    pub url: String,
    pub author: ForgeAuthor,
    /// Head commit.
    #[schema(example = "4d6d0ebe9fceb024d6d0ebe9fceb024d6d0ebe9f")]
    pub head: String,
    #[schema(example = "dark-mode")]
    pub head_branch: String,
    #[schema(example = "main")]
    pub base_branch: String,
    /// Whether the head branch is in another repository.
    pub is_fork: bool,
    pub draft: bool,
    pub labels: Vec<String>,
    pub state: PullRequestState,
    /// Whether it comes from a fork and its head commit has not been approved for deployment.
    pub needs_approval: bool,
    /// The environments that it uses or waits for, at most one per pipeline. Contains only environments that the caller
    /// may see.
    pub claims: Vec<WirePullRequestClaim>,
    /// Why the last attempt to act on it failed; null if it did not fail.
    pub error: Option<String>,
    #[schema(format = DateTime)]
    pub created_at: String,
    /// When the forge last changed it.
    #[schema(format = DateTime)]
    pub updated_at: String,
}

impl ReplayableBody for WirePullRequest {}

/// An account on a forge.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ForgeAuthor {
    /// Id of the account on the forge.
    #[schema(example = "583231")]
    pub id: String,
    #[schema(example = "grace")]
    pub name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PullRequestState {
    Open,
    Closed,
    Merged,
}

/// State to filter pull requests by.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
pub enum PullRequestStateFilter {
    Open,
    Closed,
    Merged,
    All,
}

/// The use of a pipeline's environment for a pull request.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = PullRequestClaim)]
pub struct WirePullRequestClaim {
    pub pipeline: ClaimedPipeline,
    pub environment: ClaimedEnvironment,
    pub state: PullRequestClaimState,
    /// Position in the queue, starting at 1; null unless `queued`.
    pub position: Option<usize>,
    /// Estimated time until the environment is granted; null if unknown, and unless `queued`.
    pub eta_seconds: Option<i64>,
    /// Session that holds the environment; null unless `held`.
    pub session_id: Option<String>,
    /// Fencing token of the session; null unless `held`.
    pub fence: Option<i64>,
    /// When the session expires; null if it does not, and unless `held`.
    #[schema(format = DateTime)]
    pub expires_at: Option<String>,
    /// Latest deployment of a head commit; null if there is none, or if the caller may not see it.
    pub deployment: Option<ClaimDeployment>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PullRequestClaimState {
    /// Waiting in the queue of the environment.
    Queued,
    /// The pull request has a session.
    Held,
    /// The session has ended, or the ticket was cancelled.
    Stopped,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClaimedPipeline {
    #[schema(example = "pl_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub id: String,
    #[schema(example = "shop")]
    pub slug: String,
    #[schema(example = "Shop")]
    pub name: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClaimedEnvironment {
    #[schema(example = "env_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub id: String,
    #[schema(example = "qa-1")]
    pub name: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClaimDeployment {
    #[schema(example = "dep_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub id: String,
    pub state: DeploymentStatus,
    pub commit_id: String,
}

/// The pull request that a session belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PullRequestLink {
    #[schema(example = "rep_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub repository_id: String,
    #[schema(example = 42)]
    pub number: i64,
    #[schema(example = "Dark mode")]
    pub title: String,
    /// URL of its page on the forge.
    #[schema(example = "https://git.acme.test/acme/shop/pull/42")]
    pub url: String,
    /// Name of the author on the forge.
    #[schema(example = "grace")]
    pub author: String,
}
