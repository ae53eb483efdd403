//! Deployments through the stages of a pipeline or to an environment.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ReplayableBody;
use crate::commit::WireCommit;
use crate::event::WireActor;
use crate::pull_request::PullRequestLink;
use crate::runner::{Isolation, Network};

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Deployment)]
pub struct WireDeployment {
    #[schema(example = "dep_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub id: String,
    /// The same as `id`.
    pub deployment_id: String,
    /// Sequential number within its pipeline, or within its environment, starting at 1.
    pub number: i64,
    pub pipeline_id: String,
    /// Null for a deployment through the stages.
    pub environment_id: Option<String>,
    pub env_name: Option<String>,
    /// Session that started the deployment.
    pub session_id: Option<String>,
    /// Fencing token of the environment that the deployment runs under.
    pub fence: Option<i64>,
    /// Commit, branch or tag as given in the request.
    pub commit_id: String,
    /// Full commit hash that `commitId` resolved to; null until resolved, and for pipelines without a repository.
    pub resolved_commit_id: Option<String>,
    /// The commit that `commitId` resolved to; null until resolved, and for pipelines without a repository.
    pub commit: Option<WireCommit>,
    /// URL of the forge's comparison with the commit that was deployed there before, for a deployment through the
    /// stages in the last stage; null if there is none, it is the same commit, or the forge is unknown.
    pub compare_url: Option<String>,
    pub definition_hash: String,
    pub trigger: DeploymentTrigger,
    /// What is rolled back and to which deployment; null unless this is a rollback.
    pub rollback: Option<RollbackInfo>,
    /// Purpose given when the commit was deployed to an environment.
    pub context: Option<String>,
    /// Failed deployment of the same session that this one retries.
    #[schema(example = "dep_01k9x8s6q0e3v8n5j2m4t7w9ya")]
    pub retry_of: Option<String>,
    /// Whether the commit comes from a fork. The steps of such a deployment get no secrets and no ID tokens.
    #[serde(default)]
    pub is_untrusted: bool,
    /// Reason given when the deployment was started.
    pub reason: Option<String>,
    /// Set if the deployment bypasses windows, approvals and pauses.
    pub bypass: Option<DeploymentBypass>,
    pub actor: WireActor,
    pub status: DeploymentStatus,
    /// Why it failed or was cancelled.
    pub cause: Option<String>,
    pub detail: Option<String>,
    pub cancelled_by: Option<WireActor>,
    pub superseded_by: Option<String>,
    #[schema(format = DateTime)]
    pub created_at: String,
    #[schema(format = DateTime)]
    pub started_at: Option<String>,
    #[schema(format = DateTime)]
    pub finished_at: Option<String>,
    /// What the deployment is waiting for.
    pub blocked_by: Vec<BlockedBy>,
    pub stages: Vec<DeploymentStage>,
    /// Pull request that the session of the deployment belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub pull_request: Option<PullRequestLink>,
}

impl ReplayableBody for WireDeployment {}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DeploymentBypass)]
pub struct DeploymentBypass {
    pub by: WireActor,
    pub reason: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = DeploymentTrigger)]
pub enum DeploymentTrigger {
    /// The holder of the environment deployed a commit.
    Session,
    /// The environment is reset after a session.
    Reset,
    /// The tracked branch has a new head commit.
    Push,
    /// A member started it.
    Api,
    /// A stage is rolled back to an earlier deployment.
    Rollback,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Rollback)]
pub struct RollbackInfo {
    pub stage: String,
    /// Deployment that is rolled back.
    #[schema(example = "dep_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub of: String,
    /// Deployment whose commit, definition, secrets, outputs and artifacts are used again.
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
pub struct DeploymentStage {
    pub name: String,
    pub kind: StageKind,
    pub status: StageStatus,
    /// Number of times the stage was started; more than 1 after a retry.
    pub tries: u32,
    #[schema(format = DateTime)]
    pub started_at: Option<String>,
    #[schema(format = DateTime)]
    pub finished_at: Option<String>,
    pub cause: Option<String>,
    pub detail: Option<String>,
    pub cancelled_by: Option<WireActor>,
    /// Deployment whose build is reused.
    pub reused_from: Option<String>,
    /// Only present when a single deployment is requested. Empty until the stage has started.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub steps: Option<Vec<DeploymentStep>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StageKind {
    /// Runs once per commit and definition.
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
pub struct DeploymentStep {
    #[schema(example = "stp_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub id: String,
    /// The step's id in the definition.
    #[schema(example = "deploy")]
    pub step: String,
    pub name: String,
    #[serde(rename = "type")]
    pub kind: String,
    /// Registry version of a custom step, pinned when the deployment started.
    pub uses: Option<UsedStep>,
    pub status: StepStatus,
    /// Ids (in the definition) of the steps it waits for.
    pub needs: Vec<String>,
    #[schema(format = DateTime)]
    pub started_at: Option<String>,
    #[schema(format = DateTime)]
    pub finished_at: Option<String>,
    /// When a retry starts, a soak ends, or a custom step is polled next.
    #[schema(format = DateTime)]
    pub not_before: Option<String>,
    pub cause: Option<String>,
    pub detail: Option<String>,
    pub outputs: BTreeMap<String, String>,
    /// Artifact digests by name.
    pub artifacts: BTreeMap<String, String>,
    /// Oldest first.
    pub attempts: Vec<StepAttempt>,
}

/// One version of a step from a registry.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsedStep {
    #[schema(example = "tools")]
    pub registry: String,
    /// Registry commit that the step was built from.
    pub commit_id: String,
    /// The step's type as declared by the registry.
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
pub struct StepAttempt {
    pub number: u32,
    pub status: AttemptStatus,
    /// Number of calls. A custom step is called repeatedly until it reports that it is done.
    pub calls: u32,
    #[schema(format = DateTime)]
    pub started_at: String,
    #[schema(format = DateTime)]
    pub finished_at: Option<String>,
    pub exit_code: Option<i32>,
    pub cause: Option<String>,
    pub detail: Option<String>,
    /// How the attempt was isolated from the runner's machine: `container`, `bubblewrap`, `landlock`, `process` or
    /// `none`.
    #[schema(value_type = Option<Isolation>)]
    pub isolation: Option<String>,
    /// Network access of its processes: `host`, `none` or `bridge`; null if no process was started.
    #[schema(value_type = Option<Network>)]
    pub network: Option<String>,
    /// Host paths that the runner's operator exposed to the attempt.
    pub exposed: Vec<String>,
    /// Container images that the attempt used, with their digests.
    pub images: Vec<String>,
    pub log_bytes: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AttemptStatus {
    Running,
    Succeeded,
    Failed,
    Cancelled,
    /// The runner shut down and stopped the attempt.
    Interrupted,
    /// The runner was lost; the outcome is unknown.
    Unknown,
    /// No part of the attempt ran.
    NeverStarted,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BlockedBy {
    pub kind: BlockedKind,
    pub detail: String,
    /// What will unblock it, if that can be named.
    pub cleared_by: Option<String>,
    /// Latest time at which it will be unblocked.
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
    /// A soak period is running.
    Soak,
    /// Promotion into the stage is paused after a rollback.
    PromotionPaused,
}

/// What to deploy through the stages.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = DeploymentNew)]
pub struct DeploymentNew {
    /// Commit to deploy. Defaults to the head of the tracked branch.
    #[schema(max_length = 255, example = "9fceb02")]
    pub commit_id: Option<String>,
    /// Branch or tag to deploy instead of a commit.
    #[schema(max_length = 255)]
    #[serde(rename = "ref")]
    pub reference: Option<String>,
    #[schema(max_length = 4000, example = "release 42")]
    pub reason: Option<String>,
    /// Bypasses windows, approvals and pauses. Requires `gates:bypass`.
    pub bypass: Option<DeploymentBypassNew>,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = DeploymentBypassNew)]
pub struct DeploymentBypassNew {
    /// Why the deployment cannot wait. Visible to all members.
    #[schema(min_length = 1, max_length = 4000)]
    pub reason: String,
}

#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = StageRetry)]
pub struct StageRetry {
    /// `failed` (default): the steps that did not succeed; `start`: all steps. In an environment, all steps run in
    /// either case.
    #[schema(value_type = Option<StageRetryFrom>, example = "failed")]
    pub from: Option<String>,
}

/// Which steps a retry runs again.
#[derive(ToSchema)]
#[schema(as = StageRetryFrom, rename_all = "snake_case")]
pub enum StageRetryFrom {
    Failed,
    Start,
}

#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = StageRollback)]
pub struct StageRollback {
    /// Deployment that succeeded in this stage. Defaults to the last successful one before this deployment.
    pub to: Option<String>,
    #[schema(max_length = 4000, example = "the last one breaks the checkout")]
    pub reason: Option<String>,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = StepResolution)]
pub struct StepResolution {
    /// `ran`: the step took effect, continue; `retry`: run it again; `fail`: mark it as failed.
    #[schema(value_type = StepOutcome)]
    pub outcome: String,
}

/// How to resolve a step whose outcome is unknown.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
pub enum StepOutcome {
    Ran,
    Retry,
    Fail,
}
