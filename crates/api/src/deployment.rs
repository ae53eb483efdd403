//! Deployments: through the stages of a pipeline, or in an environment.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Replay;
use crate::event::Actor;
use crate::runner::{Isolation, Network};

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Deployment {
    #[schema(example = "dep_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub id: String,
    /// The same as `id`.
    pub deployment_id: String,
    /// Counted in its pipeline, or in its environment, from 1.
    pub number: i64,
    pub pipeline_id: String,
    /// Null for a deployment that goes through the stages.
    pub environment_id: Option<String>,
    pub env_name: Option<String>,
    /// The session it was asked for in.
    pub session_id: Option<String>,
    /// The number of the holder it runs for.
    pub fence: Option<i64>,
    /// As it was sent.
    pub commit_id: String,
    /// What it stands for; null until that is known, and where the pipeline has no repository to ask.
    pub resolved_commit_id: Option<String>,
    pub definition_hash: String,
    pub trigger: Trigger,
    /// What a rollback takes back, and what it goes back to; null for any other deployment.
    pub rollback: Option<Rollback>,
    /// What it is for, as its holder said when they deployed it in an environment.
    pub context: Option<String>,
    /// The failed deployment in the same session that this one retries.
    #[schema(example = "dep_01k9x8s6q0e3v8n5j2m4t7w9ya")]
    pub retry_of: Option<String>,
    /// Why somebody asked for it.
    pub reason: Option<String>,
    /// Somebody chose to wait for nobody: it passes windows, approvals and pauses.
    pub bypass: Option<Bypass>,
    pub actor: Actor,
    pub status: DeploymentStatus,
    /// Why it failed or was cancelled.
    pub cause: Option<String>,
    pub detail: Option<String>,
    pub cancelled_by: Option<Actor>,
    pub superseded_by: Option<String>,
    #[schema(format = DateTime)]
    pub created_at: String,
    #[schema(format = DateTime)]
    pub started_at: Option<String>,
    #[schema(format = DateTime)]
    pub finished_at: Option<String>,
    /// What it waits for.
    pub blocked_by: Vec<BlockedBy>,
    pub stages: Vec<Stage>,
}

impl Replay for Deployment {}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DeploymentBypass)]
pub struct Bypass {
    pub by: Actor,
    pub reason: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = DeploymentTrigger)]
pub enum Trigger {
    /// Somebody who holds the environment asked for it.
    Session,
    /// The environment is put back after a session.
    Reset,
    /// The tracked branch has a new head.
    Push,
    /// Somebody asked for it.
    Api,
    /// A stage gets back what it had before.
    Rollback,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rollback {
    pub stage: String,
    /// The deployment that is taken back.
    #[schema(example = "dep_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub of: String,
    /// The one whose commit, definition, secrets, outputs and artifacts are used again.
    #[schema(example = "dep_01k9x8s6q0e3v8n5j2m4t7w9ya")]
    pub to: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeploymentStatus {
    Queued,
    Running,
    Waiting,
    Cancelling,
    Succeeded,
    Failed,
    Cancelled,
    Superseded,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DeploymentStage)]
pub struct Stage {
    pub name: String,
    pub kind: StageKind,
    pub status: StageStatus,
    /// How often it was begun: more than once after a retry.
    pub tries: u32,
    #[schema(format = DateTime)]
    pub started_at: Option<String>,
    #[schema(format = DateTime)]
    pub finished_at: Option<String>,
    pub cause: Option<String>,
    pub detail: Option<String>,
    pub cancelled_by: Option<Actor>,
    /// The deployment whose build this one uses.
    pub reused_from: Option<String>,
    /// Only where one deployment is viewed; empty until it has begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub steps: Option<Vec<Step>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StageKind {
    /// Once per commit and definition.
    Build,
    Stage,
    Environment,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StageStatus {
    Pending,
    Queued,
    Running,
    Waiting,
    Cancelling,
    Succeeded,
    Failed,
    Cancelled,
    Skipped,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DeploymentStep)]
pub struct Step {
    #[schema(example = "stp_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub id: String,
    /// Its id in the definition.
    #[schema(example = "deploy")]
    pub step: String,
    pub name: String,
    #[serde(rename = "type")]
    pub kind: String,
    /// Where a custom step comes from; pinned when the deployment began.
    pub uses: Option<UsedStep>,
    pub status: StepStatus,
    /// Ids, in the definition, of the steps it waits for.
    pub needs: Vec<String>,
    #[schema(format = DateTime)]
    pub started_at: Option<String>,
    #[schema(format = DateTime)]
    pub finished_at: Option<String>,
    /// A retry waits until then, a soak lasts until then, and a custom step is asked again then.
    #[schema(format = DateTime)]
    pub not_before: Option<String>,
    pub cause: Option<String>,
    pub detail: Option<String>,
    pub outputs: BTreeMap<String, String>,
    /// Digests by name.
    pub artifacts: BTreeMap<String, String>,
    /// Oldest first.
    pub attempts: Vec<Attempt>,
}

/// One version of one step of a registry.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsedStep {
    #[schema(example = "tools")]
    pub registry: String,
    /// The commit of the registry that it was built from.
    pub commit_id: String,
    /// What the registry itself calls it.
    pub step_type: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepStatus {
    Pending,
    Ready,
    Running,
    Waiting,
    Succeeded,
    Failed,
    Cancelled,
    Skipped,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = StepAttempt)]
pub struct Attempt {
    pub number: u32,
    pub status: AttemptStatus,
    /// More than one for a custom step, which is called until it is done.
    pub calls: u32,
    #[schema(format = DateTime)]
    pub started_at: String,
    #[schema(format = DateTime)]
    pub finished_at: Option<String>,
    pub exit_code: Option<i32>,
    pub cause: Option<String>,
    pub detail: Option<String>,
    /// How far it was kept apart from the rest of the machine: `bubblewrap`, `landlock`, `process`, `none`.
    #[schema(value_type = Option<Isolation>)]
    pub isolation: Option<String>,
    /// What its processes could reach of the network: `host` or `none`; null where none was started.
    #[schema(value_type = Option<Network>)]
    pub network: Option<String>,
    /// Paths of the machine that the operator of its runner exposed to it.
    pub exposed: Vec<String>,
    pub log_bytes: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AttemptStatus {
    Running,
    Succeeded,
    Failed,
    Cancelled,
    /// Its runner ended and took it along.
    Interrupted,
    /// Its runner went away; nobody knows how far it came.
    Unknown,
    /// Nothing of it ever ran.
    NeverStarted,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BlockedBy {
    pub kind: BlockedKind,
    pub detail: String,
    /// What will clear it, where that can be named.
    pub cleared_by: Option<String>,
    /// When it clears at the latest.
    #[schema(format = DateTime)]
    pub clears_at: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BlockedKind {
    EnvironmentContested,
    EnvironmentResetting,
    Queue,
    PipelineStopped,
    NoRunner,
    EarlierStage,
    UnknownOutcome,
    Approval,
    Window,
    /// Time has to pass.
    Soak,
    /// After a rollback nothing new comes into the stage.
    PromotionPaused,
}

/// What to deploy through the stages.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = DeploymentNew)]
pub struct New {
    /// A commit. Left out: the head of the tracked branch.
    #[schema(max_length = 255, example = "9fceb02")]
    pub commit_id: Option<String>,
    /// A branch or tag, in place of a commit.
    #[schema(max_length = 255)]
    #[serde(rename = "ref")]
    pub reference: Option<String>,
    #[schema(max_length = 4000, example = "release 42")]
    pub reason: Option<String>,
    /// Passes windows, approvals and pauses. Needs `gates:bypass`.
    pub bypass: Option<BypassNew>,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = DeploymentBypassNew)]
pub struct BypassNew {
    /// Why nobody can be waited for. Everybody sees it.
    #[schema(min_length = 1, max_length = 4000)]
    pub reason: String,
}

#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = StageRetry)]
pub struct Retry {
    /// `failed` (default): steps that did not succeed; `start`: all of them. In an environment all of them run, whichever
    /// is given.
    #[schema(value_type = Option<RetryFrom>, example = "failed")]
    pub from: Option<String>,
}

/// Which steps a retry runs again.
#[derive(ToSchema)]
#[schema(as = StageRetryFrom, rename_all = "snake_case")]
pub enum RetryFrom {
    Failed,
    Start,
}

#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = StageRollback)]
pub struct RollbackNew {
    /// A deployment that succeeded in this stage. Left out: the last good one.
    pub to: Option<String>,
    #[schema(max_length = 4000, example = "the last one breaks the checkout")]
    pub reason: Option<String>,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = StepResolution)]
pub struct Resolve {
    /// `ran`: it took effect, go on; `retry`: run it again; `fail`.
    #[schema(value_type = StepOutcome)]
    pub outcome: String,
}

/// What became of a step whose outcome was unknown.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
pub enum StepOutcome {
    Ran,
    Retry,
    Fail,
}
