//! The state of a deployment.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::environment::fence::Fence;
use crate::event::Actor;
use crate::id::{DeploymentId, EnvironmentId, PipelineId, SessionId, UserId};
use crate::name::{CommitId, EnvName, Reason};
use crate::time::Timestamp;

/// A deployment of one commit. `T` is the type of its target: [`EnvironmentTarget`], [`StagesTarget`], or
/// [`DeploymentTarget`] in code that handles both.
#[derive(Debug, Clone, PartialEq)]
pub struct Deployment<T = DeploymentTarget> {
    pub id: DeploymentId,
    /// Counts from 1 within the environment or, for a deployment through stages, within the pipeline.
    pub number: i64,
    pub pipeline: PipelineId,
    /// Hash of the definition that was current when the deployment was requested.
    pub definition_hash: String,
    pub commit: CommitId,
    /// The full commit hash. Known once the deployment has started, and only if the pipeline has a repository.
    pub resolved_commit: Option<String>,
    /// Free text from the requester. The API calls it `context` for deployments to environments.
    pub reason: Option<Reason>,
    pub requested_by: Actor,
    pub status: DeploymentState,
    pub created_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
    pub target: T,
}

pub type EnvironmentDeployment = Deployment<EnvironmentTarget>;
pub type StagesDeployment = Deployment<StagesTarget>;

/// Where a deployment goes: to one environment or through all stages.
#[derive(Debug, Clone, PartialEq)]
pub enum DeploymentTarget {
    Environment(EnvironmentTarget),
    Stages(StagesTarget),
}

impl DeploymentTarget {
    /// Whether the commit comes from a fork.
    pub fn is_untrusted(&self) -> bool {
        matches!(self, Self::Environment(EnvironmentTarget { is_untrusted: true, .. }))
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct EnvironmentTarget {
    pub environment: EnvironmentId,
    /// The environment's name, which is also the name of the deployment's only stage.
    pub name: EnvName,
    pub purpose: DeploymentPurpose,
    pub fence: Fence,
    /// Set while the deployment is running or cancelling.
    pub attempt: Option<DeploymentAttempt>,
    /// The failed deployment of the same session that this one retries.
    pub retry_of: Option<DeploymentId>,
    /// The requester's reason for starting the deployment while work of ended sessions is still running; `None` if it
    /// waits for that work.
    pub overrides_drain: Option<Reason>,
    /// Whether the commit comes from a fork. The steps of such a deployment get no secrets and no ID tokens.
    pub is_untrusted: bool,
}

/// The deployment passes through all stages of the pipeline, in order.
#[derive(Debug, Clone, PartialEq)]
pub struct StagesTarget {
    pub trigger: StartTrigger,
    /// Accounts that retried a stage, and the people behind them.
    pub retried_by: BTreeSet<UserId>,
    /// Set if the deployment ignores windows, approvals and promotion pauses.
    pub bypass: Option<GateBypass>,
}

/// Permission to ignore all gates, with the reason that is recorded in the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateBypass {
    pub by: Actor,
    pub reason: Reason,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum StartTrigger {
    /// A push to the tracked branch.
    Push {
        branch: String,
    },
    Api,
    /// A rollback of one stage to an earlier deployment.
    Rollback {
        stage: String,
        /// The deployment being rolled back.
        of: DeploymentId,
        /// The deployment whose plan runs again.
        to: DeploymentId,
    },
}

impl StartTrigger {
    pub const fn as_str(&self) -> &'static str {
        match self {
            StartTrigger::Push { .. } => "push",
            StartTrigger::Api => "api",
            StartTrigger::Rollback { .. } => "rollback",
        }
    }

    /// For a rollback: the stage, and the deployment being rolled back.
    pub fn rollback_of(&self) -> Option<(&str, DeploymentId)> {
        match self {
            StartTrigger::Rollback { stage, of, .. } => Some((stage, *of)),
            StartTrigger::Push { .. } | StartTrigger::Api => None,
        }
    }
}

/// What an environment deployment is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeploymentPurpose {
    Session(SessionId),
    /// Restores the environment to the tracked commit. A reset has a fence of its own.
    Reset,
}

#[derive(Debug, Clone, PartialEq)]
pub enum DeploymentState {
    /// Not started, because its plan is not ready or an obstacle blocks it.
    Queued,
    Running,
    /// Waits for a person or for a fixed time. Only deployments through stages have this status.
    Waiting,
    /// Cancelled, but its steps may still be running.
    Cancelling(CancelRequest),
    Succeeded,
    Failed(ExecutionFailure),
    Cancelled(CancelRequest),
    Superseded {
        by: DeploymentId,
    },
}

impl DeploymentState {
    pub const fn as_str(&self) -> &'static str {
        match self {
            DeploymentState::Queued => "queued",
            DeploymentState::Running => "running",
            DeploymentState::Waiting => "waiting",
            DeploymentState::Cancelling(_) => "cancelling",
            DeploymentState::Succeeded => "succeeded",
            DeploymentState::Failed(_) => "failed",
            DeploymentState::Cancelled(_) => "cancelled",
            DeploymentState::Superseded { .. } => "superseded",
        }
    }

    pub const fn is_final(&self) -> bool {
        matches!(
            self,
            DeploymentState::Succeeded
                | DeploymentState::Failed(_)
                | DeploymentState::Cancelled(_)
                | DeploymentState::Superseded { .. }
        )
    }

    pub const fn failure(&self) -> Option<&ExecutionFailure> {
        match self {
            DeploymentState::Failed(failure) => Some(failure),
            _ => None,
        }
    }

    pub const fn cancel(&self) -> Option<&CancelRequest> {
        match self {
            DeploymentState::Cancelling(cancel) | DeploymentState::Cancelled(cancel) => Some(cancel),
            _ => None,
        }
    }

    pub const fn superseded_by(&self) -> Option<DeploymentId> {
        match self {
            DeploymentState::Superseded { by } => Some(*by),
            _ => None,
        }
    }
}

impl<T> Deployment<T> {
    fn with_target<U>(self, convert: impl FnOnce(T) -> U) -> Deployment<U> {
        Deployment {
            id: self.id,
            number: self.number,
            pipeline: self.pipeline,
            definition_hash: self.definition_hash,
            commit: self.commit,
            resolved_commit: self.resolved_commit,
            reason: self.reason,
            requested_by: self.requested_by,
            status: self.status,
            created_at: self.created_at,
            started_at: self.started_at,
            finished_at: self.finished_at,
            target: convert(self.target),
        }
    }
}

impl Deployment {
    /// Converts to a deployment in an environment; `Err` returns the deployment if it goes through stages.
    pub fn into_environment(self) -> Result<EnvironmentDeployment, Box<StagesDeployment>> {
        match self.target.clone() {
            DeploymentTarget::Environment(target) => Ok(self.with_target(|_| target)),
            DeploymentTarget::Stages(target) => Err(Box::new(self.with_target(|_| target))),
        }
    }
}

impl From<EnvironmentTarget> for DeploymentTarget {
    fn from(target: EnvironmentTarget) -> Self {
        DeploymentTarget::Environment(target)
    }
}

impl From<StagesTarget> for DeploymentTarget {
    fn from(target: StagesTarget) -> Self {
        DeploymentTarget::Stages(target)
    }
}

impl From<EnvironmentDeployment> for Deployment {
    fn from(deployment: EnvironmentDeployment) -> Self {
        deployment.with_target(DeploymentTarget::Environment)
    }
}

impl EnvironmentDeployment {
    /// The attempt that may still be running.
    pub const fn attempt(&self) -> Option<&DeploymentAttempt> {
        self.target.attempt.as_ref()
    }
}

/// One execution of a deployment by one runner. The runner chooses the nonce and sends it with every repetition of a
/// grant request, so that a repeated request has no further effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeploymentAttempt {
    pub runner: String,
    pub nonce: String,
    pub granted_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelRequest {
    pub by: Actor,
    pub cause: CancelCause,
    pub reason: Option<Reason>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CancelCause {
    Requested,
    SessionEnded,
    DrainOverridden,
    EnvironmentDeleted,
    PipelineDeleted,
}

impl CancelCause {
    pub const fn as_str(self) -> &'static str {
        match self {
            CancelCause::Requested => "requested",
            CancelCause::SessionEnded => "session_ended",
            CancelCause::DrainOverridden => "drain_overridden",
            CancelCause::EnvironmentDeleted => "environment_deleted",
            CancelCause::PipelineDeleted => "pipeline_deleted",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutionFailure {
    pub cause: FailureCode,
    pub detail: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureCode {
    StepFailed,
    /// The definition requires something that this version of Berth cannot do.
    NotRunnable,
    /// The runner is lost; the outcome is unknown.
    Lost,
    TimedOut,
    /// The process was ended by a signal that Berth did not send.
    Killed,
    /// The commit is not in the repository.
    CommitNotFound,
    /// The abbreviated hash matches several commits.
    CommitAmbiguous,
    /// A person rejected the approval.
    ApprovalRejected,
    /// The approval was not granted in time.
    ApprovalExpired,
    /// A person ended the soak as failed.
    SoakRejected,
}

impl FailureCode {
    pub const fn as_str(self) -> &'static str {
        match self {
            FailureCode::StepFailed => "step_failed",
            FailureCode::NotRunnable => "not_runnable",
            FailureCode::Lost => "lost",
            FailureCode::TimedOut => "timed_out",
            FailureCode::Killed => "killed",
            FailureCode::CommitNotFound => "commit_not_found",
            FailureCode::CommitAmbiguous => "commit_ambiguous",
            FailureCode::ApprovalRejected => "approval_rejected",
            FailureCode::ApprovalExpired => "approval_expired",
            FailureCode::SoakRejected => "soak_rejected",
        }
    }
}

/// What keeps a queued deployment from starting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartObstacle {
    PipelineStopped,
    /// Deployments of ended sessions may still be running.
    EnvironmentContested {
        pending: Vec<DeploymentId>,
    },
    EnvironmentResetting {
        reset: DeploymentId,
    },
    /// An earlier deployment of the same session has not finished.
    Queue {
        behind: DeploymentId,
    },
}

impl StartObstacle {
    pub const fn is_pause(&self) -> bool {
        matches!(self, StartObstacle::PipelineStopped)
    }
}
