//! Deployments.

use serde::Serialize;
use utoipa::ToSchema;

use crate::Replay;
use crate::event::Actor;

#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Deployment {
    #[schema(example = "dep_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub id: String,
    /// The same as `id`.
    pub deployment_id: String,
    /// Counted in its environment, from 1.
    pub number: i64,
    pub pipeline_id: String,
    pub environment_id: String,
    pub env_name: String,
    /// The session it was asked for in; null for a reset.
    pub session_id: Option<String>,
    /// The number of the holder it runs for.
    pub fence: i64,
    /// As it was sent.
    pub commit_id: String,
    /// What it stands for; null where the pipeline has no repository to ask.
    pub resolved_commit_id: Option<String>,
    pub definition_hash: String,
    pub trigger: Trigger,
    pub actor: Actor,
    pub status: DeploymentStatus,
    /// Why it failed or was cancelled.
    pub cause: Option<String>,
    pub detail: Option<String>,
    pub cancelled_by: Option<Actor>,
    pub superseded_by: Option<String>,
    pub created_at: String,
    pub started_at: Option<String>,
    pub finished_at: Option<String>,
    /// What it waits for.
    pub blocked_by: Vec<BlockedBy>,
    pub stages: Vec<Stage>,
}

impl Replay for Deployment {}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = DeploymentTrigger)]
pub enum Trigger {
    /// Somebody who holds the environment asked for it.
    Session,
    /// The environment is put back after a session.
    Reset,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeploymentStatus {
    Queued,
    Running,
    Cancelling,
    Succeeded,
    Failed,
    Cancelled,
    Superseded,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DeploymentStage)]
pub struct Stage {
    pub name: String,
    pub kind: StageKind,
    pub status: DeploymentStatus,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StageKind {
    Environment,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BlockedBy {
    pub kind: BlockedKind,
    pub detail: String,
    /// What will clear it, where that can be named.
    pub cleared_by: Option<String>,
    /// When it clears at the latest.
    pub clears_at: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BlockedKind {
    EnvironmentContested,
    EnvironmentResetting,
    Queue,
    PipelineStopped,
}
