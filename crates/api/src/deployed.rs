//! What is currently deployed where.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::environment::Holder;
use crate::pipeline::{CurrentCommit, FailedDeployment, PipelineStage};
use crate::pull_request::PullRequestLink;
use crate::session::Takeover;

/// What is currently deployed in the stages and environments of a pipeline.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Deployed)]
pub struct DeployedPipeline {
    #[schema(example = "pl_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub pipeline_id: String,
    #[schema(example = "shop")]
    pub slug: String,
    pub name: String,
    /// Head commit of the tracked branch at the last sync; null without a repository.
    pub head: Option<String>,
    /// The newest deployment of its stages, if it failed; absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub failed: Option<FailedDeployment>,
    /// In pipeline order.
    pub stages: Vec<PipelineStage>,
    pub environments: Vec<DeployedEnvironment>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeployedEnvironment {
    pub environment_id: String,
    #[schema(example = "qa-1")]
    pub env_name: String,
    /// What is currently deployed; null until a deployment has succeeded.
    pub current: Option<CurrentCommit>,
    /// The newest deployment, if it failed; absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub failed: Option<FailedDeployment>,
    /// Who holds the environment; null if unlocked.
    pub holder: Option<Holder>,
    #[schema(format = DateTime)]
    pub held_since: Option<String>,
    /// When the session expires; null if it does not.
    #[schema(format = DateTime)]
    pub held_until: Option<String>,
    /// Context of the session, as given by its holder.
    pub context: Option<String>,
    /// Whom to ask about the session; absent if the claim named no contact.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "grace@acme.test")]
    pub contact: Option<String>,
    /// Announced takeover of the current session; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub takeover: Option<Takeover>,
    /// Number of waiting tickets.
    pub queue_length: usize,
    /// Deployment that is queued or running; null if there is none.
    pub deploying: Option<String>,
    /// Pull request that the current session belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub pull_request: Option<PullRequestLink>,
}
