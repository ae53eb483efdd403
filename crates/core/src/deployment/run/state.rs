//! The state of a run, its stages, steps and attempts.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::park::CustomStepState;
use super::plan::StageType;
use crate::deployment::{CancelRequest, ExecutionFailure};
use crate::environment::fence::Fence;
use crate::id::{DeploymentId, PipelineId, StepRunId};
use crate::pipeline::grammar::StepId;
use crate::time::Timestamp;

#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    pub deployment: DeploymentId,
    pub pipeline: PipelineId,
    /// Increases by one with every change.
    pub version: i64,
    pub stages: Vec<StageRun>,
    /// In plan order. Each step is behind an `Arc`, because every decision copies the run but changes only one or two
    /// steps.
    pub steps: Vec<Arc<StepRun>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StageRun {
    pub name: String,
    pub kind: StageType,
    pub status: StageRunStatus,
    /// Number of times the stage was started.
    pub tries: u32,
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
    pub failure: Option<ExecutionFailure>,
    pub cancel: Option<CancelRequest>,
    /// The earlier deployment of the same commit and definition whose build is reused.
    pub reused_from: Option<DeploymentId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StageRunStatus {
    /// An earlier stage has not ended.
    Pending,
    /// All earlier stages have ended, but another deployment is in the stage or a gate is closed.
    Queued,
    Running,
    /// No step is running; the stage waits for a person or for a fixed time.
    Waiting,
    Cancelling,
    Succeeded,
    Failed,
    Cancelled,
    Skipped,
}

impl StageRunStatus {
    pub const fn is_final(self) -> bool {
        matches!(
            self,
            StageRunStatus::Succeeded
                | StageRunStatus::Failed
                | StageRunStatus::Cancelled
                | StageRunStatus::Skipped
        )
    }

    /// Whether the stage has started and not finished.
    pub const fn is_open(self) -> bool {
        matches!(self, StageRunStatus::Running | StageRunStatus::Waiting | StageRunStatus::Cancelling)
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            StageRunStatus::Pending => "pending",
            StageRunStatus::Queued => "queued",
            StageRunStatus::Running => "running",
            StageRunStatus::Waiting => "waiting",
            StageRunStatus::Cancelling => "cancelling",
            StageRunStatus::Succeeded => "succeeded",
            StageRunStatus::Failed => "failed",
            StageRunStatus::Cancelled => "cancelled",
            StageRunStatus::Skipped => "skipped",
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct StepRun {
    pub id: StepRunId,
    /// Index of the stage in the plan; `index` is the position of the step in that stage.
    pub stage: usize,
    pub index: usize,
    pub step: StepId,
    pub status: StepRunStatus,
    /// Number of attempts so far. Never decreases, not even when the stage is retried.
    pub tries: u32,
    /// Failed attempts since the stage was started or retried; compared with the limit in `retry`.
    pub failures: u32,
    /// Attempts with an unknown outcome since the stage was started or retried.
    pub losses: u32,
    /// Consecutive attempts that never started.
    pub false_starts: u32,
    /// The step is not granted before this time.
    pub not_before: Option<Timestamp>,
    /// The attempt whose process may be running.
    pub live: Option<Attempt>,
    /// State of a custom step, from its first non-final response until its attempt ends.
    pub memory: Option<CustomStepState>,
    /// Outputs of the last successful attempt.
    pub outputs: BTreeMap<String, String>,
    /// Digests of the step's artifacts, by artifact name.
    pub artifacts: BTreeMap<String, String>,
    /// Why the step failed, or why its outcome is unknown.
    pub failure: Option<ExecutionFailure>,
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepRunStatus {
    /// Waits for a step that it needs.
    Pending,
    /// May be granted to a runner.
    Ready,
    Running,
    /// Waits for an approval, for time, or for an operator to resolve an unknown outcome.
    Waiting,
    Succeeded,
    Failed,
    Cancelled,
    Skipped,
}

impl StepRunStatus {
    pub const ALL: [StepRunStatus; 8] = [
        StepRunStatus::Pending,
        StepRunStatus::Ready,
        StepRunStatus::Running,
        StepRunStatus::Waiting,
        StepRunStatus::Succeeded,
        StepRunStatus::Failed,
        StepRunStatus::Cancelled,
        StepRunStatus::Skipped,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            StepRunStatus::Pending => "pending",
            StepRunStatus::Ready => "ready",
            StepRunStatus::Running => "running",
            StepRunStatus::Waiting => "waiting",
            StepRunStatus::Succeeded => "succeeded",
            StepRunStatus::Failed => "failed",
            StepRunStatus::Cancelled => "cancelled",
            StepRunStatus::Skipped => "skipped",
        }
    }

    pub const fn is_final(self) -> bool {
        self.is_passed() || matches!(self, StepRunStatus::Failed | StepRunStatus::Cancelled)
    }

    /// Whether the steps that need this step may start.
    pub const fn is_passed(self) -> bool {
        matches!(self, StepRunStatus::Succeeded | StepRunStatus::Skipped)
    }
}

/// One execution of a step. The runner chooses the nonce and sends it with every repetition of a grant request, so that
/// a repeated request has no further effect.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    pub step: StepRunId,
    pub number: u32,
    /// Identifies the runner process; different after each start of the runner.
    pub runner: String,
    pub nonce: String,
    /// Milliseconds without a heartbeat after which the server treats the runner as lost. The runner stops the attempt
    /// earlier by itself. `None` if unknown.
    pub lost_ms: Option<i64>,
    pub granted_at: Timestamp,
    /// Number of calls. Only custom steps have more than one: they are called until they are done.
    pub calls: u32,
    /// When the attempt was parked, which means that it has no process until its next call; `None` if it is not parked.
    pub parked_at: Option<Timestamp>,
    pub end: Option<AttemptEnd>,
}

impl Attempt {
    /// Whether a process of the attempt may be running.
    pub const fn is_live(&self) -> bool {
        self.end.is_none() && self.parked_at.is_none()
    }
}

/// How and when an attempt ended. Never changes once recorded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttemptEnd {
    pub at: Timestamp,
    pub outcome: AttemptOutcome,
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AttemptOutcome {
    Succeeded {
        outputs: BTreeMap<String, String>,
        artifacts: BTreeMap<String, String>,
    },
    Failed {
        failure: ExecutionFailure,
        exit_code: Option<i32>,
    },
    /// The attempt was cancelled and has stopped.
    Stopped,
    /// The runner shut down and stopped the attempt; the outcome is unknown.
    Interrupted,
    /// The runner is lost; the outcome is unknown.
    Lost,
    /// No process ever ran.
    NeverStarted {
        detail: String,
        /// Set if the runner refused the attempt because it has already executed work of a later holder of the
        /// environment. This is the later holder's fence.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        known_fence: Option<Fence>,
    },
    /// The process ended without a response; the outcome is unknown.
    Unanswered {
        detail: String,
    },
}

impl AttemptOutcome {
    pub const fn never_started(detail: String) -> Self {
        AttemptOutcome::NeverStarted { detail, known_fence: None }
    }

    pub const fn as_str(&self) -> &'static str {
        match self {
            AttemptOutcome::Succeeded { .. } => "succeeded",
            AttemptOutcome::Failed { .. } => "failed",
            AttemptOutcome::Stopped => "cancelled",
            AttemptOutcome::Interrupted => "interrupted",
            AttemptOutcome::Lost => "unknown",
            AttemptOutcome::NeverStarted { .. } => "never_started",
            AttemptOutcome::Unanswered { .. } => "unanswered",
        }
    }
}

/// An operator's decision about a step whose outcome is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutcomeResolution {
    /// Treat the step as succeeded and continue.
    Ran,
    /// Run the step again.
    Retry,
    Fail,
}

#[derive(Debug, Clone, PartialEq)]
pub enum RunStatus {
    Running,
    Waiting,
    Cancelling(CancelRequest),
    Succeeded,
    Failed(ExecutionFailure),
    Cancelled(CancelRequest),
}
