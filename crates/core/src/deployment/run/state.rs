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
    /// In plan order. Shared, because every decision works on a copy of the run and changes one or two steps.
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
    /// Next in order, but another deployment is in the stage or a gate is closed.
    Queued,
    Running,
    /// Nothing runs until a person acts or a waiting time is over.
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

    /// Started and not finished.
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
    /// Index of the stage, and of the step in it.
    pub stage: usize,
    pub index: usize,
    pub step: StepId,
    pub status: StepRunStatus,
    /// Attempts so far. Never decreases.
    pub tries: u32,
    /// Failures since the stage started; they count for `retry`.
    pub failures: u32,
    /// Attempts with an unknown outcome since the stage started.
    pub losses: u32,
    /// Consecutive attempts that never started.
    pub false_starts: u32,
    /// A retry waits until this time.
    pub not_before: Option<Timestamp>,
    /// The attempt that may be running.
    pub live: Option<Attempt>,
    /// State of a custom step, from its first non-final response until its attempt ends.
    pub memory: Option<CustomStepState>,
    /// Outputs of the last successful attempt.
    pub outputs: BTreeMap<String, String>,
    /// Digests by name.
    pub artifacts: BTreeMap<String, String>,
    /// Why the step failed, or what is unknown about it.
    pub failure: Option<ExecutionFailure>,
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepRunStatus {
    /// A step that it needs has not ended.
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

    /// Steps that need it may start.
    pub const fn is_passed(self) -> bool {
        matches!(self, StepRunStatus::Succeeded | StepRunStatus::Skipped)
    }
}

/// One execution of a step. The runner chooses the nonce, so a repeated grant request is idempotent.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    pub step: StepRunId,
    pub number: u32,
    /// The runner's name, unique per start of the runner.
    pub runner: String,
    pub nonce: String,
    /// Milliseconds of silence after which the runner stops the attempt itself. `None` if unknown.
    pub lost_ms: Option<i64>,
    pub granted_at: Timestamp,
    /// More than one only for custom steps, which are called until they are done.
    pub calls: u32,
    /// Since when the attempt continues without a process.
    pub parked_at: Option<Timestamp>,
    pub end: Option<AttemptEnd>,
}

impl Attempt {
    /// Whether a process of the attempt may be running.
    pub const fn is_live(&self) -> bool {
        self.end.is_none() && self.parked_at.is_none()
    }
}

/// How and when an attempt ended. Never changes.
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
    /// Cancelled and stopped.
    Stopped,
    /// The runner shut down and stopped it; the outcome is unknown.
    Interrupted,
    /// The runner is lost; the outcome is unknown.
    Lost,
    /// No process ever ran.
    NeverStarted {
        detail: String,
        /// The runner refused it because it has executed work of a later holder of the environment, under this fence.
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

/// An operator's decision about an unknown outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutcomeResolution {
    /// The step took effect: continue.
    Ran,
    /// Run it again.
    Retry,
    Fail,
}

/// The status of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum RunStatus {
    Running,
    Waiting,
    Cancelling(CancelRequest),
    Succeeded,
    Failed(ExecutionFailure),
    Cancelled(CancelRequest),
}
