//! The record of a deployment.

use serde::{Deserialize, Serialize};

use crate::environment::fence::Fence;
use crate::event::Actor;
use crate::id::{DeploymentId, EnvironmentId, PipelineId, SessionId};
use crate::name::{CommitId, EnvName, Reason};
use crate::time::Timestamp;

#[derive(Debug, Clone, PartialEq)]
pub struct Deployment {
    pub id: DeploymentId,
    /// The order in which the environment's deployments were asked for, from 1.
    pub number: i64,
    pub pipeline: PipelineId,
    pub environment: EnvironmentId,
    /// The name of its one stage: that of the environment.
    pub stage: EnvName,
    /// The definition as it was when the deployment was asked for.
    pub definition_hash: String,
    pub work: Work,
    pub fence: Fence,
    pub commit: CommitId,
    /// What it stands for; known once it has begun, where there is a repository to ask.
    pub resolved_commit: Option<String>,
    /// What for.
    pub context: Option<Reason>,
    pub requested_by: Actor,
    /// The failed deployment of the same session that this one retries.
    pub retry_of: Option<DeploymentId>,
    /// Somebody with the right to do so chose not to wait for the work of former sessions.
    pub overrides_drain: Option<Reason>,
    pub status: Status,
    pub created_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
}

/// For whom it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    Session(SessionId),
    /// The environment is put back; its fence is a number of its own.
    Reset,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Status {
    Queued,
    Running(Attempt),
    /// Told to stop, not yet known to have stopped.
    Cancelling {
        attempt: Attempt,
        cancel: Cancel,
    },
    Succeeded,
    Failed(Failure),
    Cancelled(Cancel),
    Superseded {
        by: DeploymentId,
    },
}

impl Status {
    pub const fn as_str(&self) -> &'static str {
        match self {
            Status::Queued => "queued",
            Status::Running(_) => "running",
            Status::Cancelling { .. } => "cancelling",
            Status::Succeeded => "succeeded",
            Status::Failed(_) => "failed",
            Status::Cancelled(_) => "cancelled",
            Status::Superseded { .. } => "superseded",
        }
    }

    pub const fn is_final(&self) -> bool {
        matches!(
            self,
            Status::Succeeded | Status::Failed(_) | Status::Cancelled(_) | Status::Superseded { .. }
        )
    }

    /// The attempt that may be running.
    pub const fn attempt(&self) -> Option<&Attempt> {
        match self {
            Status::Running(attempt) | Status::Cancelling { attempt, .. } => Some(attempt),
            _ => None,
        }
    }
}

/// One execution, by one runner. The nonce is the runner's own: asking twice with it is asking once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    pub runner: String,
    pub nonce: String,
    pub granted_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancel {
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
pub struct Failure {
    pub cause: Cause,
    pub detail: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    StepFailed,
    /// The definition asks for something this version cannot do.
    NotRunnable,
    /// The runner went away: nobody knows how far it came.
    Lost,
    TimedOut,
    /// A signal ended it that nobody of us sent.
    Killed,
    /// Its sources are not to be had.
    CommitNotFound,
    /// Several commits begin like the abbreviation that was sent.
    CommitAmbiguous,
    /// Somebody who was asked said no.
    ApprovalRejected,
    /// Nobody who was asked answered in time.
    ApprovalExpired,
    /// Somebody ended its soak with a no.
    SoakRejected,
}

impl Cause {
    pub const fn as_str(self) -> &'static str {
        match self {
            Cause::StepFailed => "step_failed",
            Cause::NotRunnable => "not_runnable",
            Cause::Lost => "lost",
            Cause::TimedOut => "timed_out",
            Cause::Killed => "killed",
            Cause::CommitNotFound => "commit_not_found",
            Cause::CommitAmbiguous => "commit_ambiguous",
            Cause::ApprovalRejected => "approval_rejected",
            Cause::ApprovalExpired => "approval_expired",
            Cause::SoakRejected => "soak_rejected",
        }
    }
}

/// Why a deployment does not start yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Blocked {
    PipelineStopped,
    /// By these deployments of ended sessions.
    EnvironmentContested {
        pending: Vec<DeploymentId>,
    },
    EnvironmentResetting {
        reset: DeploymentId,
    },
    /// One of the same session comes first.
    Queue {
        behind: DeploymentId,
    },
}

impl Blocked {
    pub const fn is_pause(&self) -> bool {
        matches!(self, Blocked::PipelineStopped)
    }
}
