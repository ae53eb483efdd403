//! The run of a deployment: how far each stage and each step has come.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::park::Memory;
use super::plan::StageKind;
use crate::deployment::{Cancel, Failure};
use crate::environment::fence::Fence;
use crate::id::{DeploymentId, PipelineId, StepRunId};
use crate::pipeline::grammar::StepId;
use crate::time::Timestamp;

#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    pub deployment: DeploymentId,
    pub pipeline: PipelineId,
    /// Rises by one with every change.
    pub version: i64,
    pub stages: Vec<StageRun>,
    /// In the order of the plan: those of the first stage first. Shared, because every decision is about a copy of the
    /// run and changes one or two.
    pub steps: Vec<Arc<StepRun>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StageRun {
    pub name: String,
    pub kind: StageKind,
    pub status: StageStatus,
    /// How often it was begun.
    pub tries: u32,
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
    pub failure: Option<Failure>,
    pub cancel: Option<Cancel>,
    /// A build that an earlier deployment of the same commit and definition did.
    pub reused_from: Option<DeploymentId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StageStatus {
    /// An earlier stage comes first.
    Pending,
    /// Its turn, but another deployment is in it.
    Queued,
    Running,
    /// Nothing runs and nothing can, until somebody says something.
    Waiting,
    Cancelling,
    Succeeded,
    Failed,
    Cancelled,
    Skipped,
}

impl StageStatus {
    pub const fn is_final(self) -> bool {
        matches!(
            self,
            StageStatus::Succeeded | StageStatus::Failed | StageStatus::Cancelled | StageStatus::Skipped
        )
    }

    /// Begun and not ended.
    pub const fn is_open(self) -> bool {
        matches!(self, StageStatus::Running | StageStatus::Waiting | StageStatus::Cancelling)
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            StageStatus::Pending => "pending",
            StageStatus::Queued => "queued",
            StageStatus::Running => "running",
            StageStatus::Waiting => "waiting",
            StageStatus::Cancelling => "cancelling",
            StageStatus::Succeeded => "succeeded",
            StageStatus::Failed => "failed",
            StageStatus::Cancelled => "cancelled",
            StageStatus::Skipped => "skipped",
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct StepRun {
    pub id: StepRunId,
    /// Its stage, and its place there.
    pub stage: usize,
    pub index: usize,
    pub step: StepId,
    pub status: StepStatus,
    /// Attempts so far; the number of the next one is one more. Never falls.
    pub tries: u32,
    /// Failures that count for `retry`, since the stage was begun.
    pub failures: u32,
    /// Attempts whose end nobody knows, since the stage was begun.
    pub losses: u32,
    /// Attempts of which nothing ever ran, one after the other up to now.
    pub false_starts: u32,
    /// A retry waits until then.
    pub not_before: Option<Timestamp>,
    /// The attempt that may be running.
    pub live: Option<Attempt>,
    /// Of a custom step, from its first answer that was not the end until its attempt ends.
    pub memory: Option<Memory>,
    /// Of the last attempt that succeeded.
    pub outputs: BTreeMap<String, String>,
    /// Digests by name.
    pub artifacts: BTreeMap<String, String>,
    /// Why it failed, or what is unknown.
    pub failure: Option<Failure>,
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepStatus {
    /// Others come first.
    Pending,
    /// A runner may have it.
    Ready,
    Running,
    /// Nobody knows whether its last attempt took effect: somebody has to say.
    Waiting,
    Succeeded,
    Failed,
    Cancelled,
    Skipped,
}

impl StepStatus {
    pub const ALL: [StepStatus; 8] = [
        StepStatus::Pending,
        StepStatus::Ready,
        StepStatus::Running,
        StepStatus::Waiting,
        StepStatus::Succeeded,
        StepStatus::Failed,
        StepStatus::Cancelled,
        StepStatus::Skipped,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            StepStatus::Pending => "pending",
            StepStatus::Ready => "ready",
            StepStatus::Running => "running",
            StepStatus::Waiting => "waiting",
            StepStatus::Succeeded => "succeeded",
            StepStatus::Failed => "failed",
            StepStatus::Cancelled => "cancelled",
            StepStatus::Skipped => "skipped",
        }
    }

    /// Those that need it may begin.
    pub const fn is_passed(self) -> bool {
        matches!(self, StepStatus::Succeeded | StepStatus::Skipped)
    }
}

/// One execution of a step. The nonce is the runner's own: asking twice with it is asking once.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    pub step: StepRunId,
    pub number: u32,
    /// The runner's name since its last start.
    pub runner: String,
    pub nonce: String,
    /// When its runner was silent for so long, it has stopped it. `None`: that is not known of this runner.
    pub lost_ms: Option<i64>,
    pub granted_at: Timestamp,
    /// More than one only of a custom step, which is called until it is done.
    pub calls: u32,
    /// Since when it goes on without a process.
    pub parked_at: Option<Timestamp>,
    pub end: Option<AttemptEnd>,
}

impl Attempt {
    /// A process of it may be running.
    pub const fn is_live(&self) -> bool {
        self.end.is_none() && self.parked_at.is_none()
    }
}

/// Final for ever.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttemptEnd {
    pub at: Timestamp,
    pub outcome: Outcome,
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Outcome {
    Succeeded {
        outputs: BTreeMap<String, String>,
        artifacts: BTreeMap<String, String>,
    },
    Failed {
        failure: Failure,
        exit_code: Option<i32>,
    },
    /// It was told to stop and has.
    Stopped,
    /// Its runner ended and took it along; nobody knows how far it came.
    Interrupted,
    /// Its runner is gone; nobody knows how far it came.
    Lost,
    /// Nothing of it ever ran.
    NeverStarted {
        detail: String,
        /// Its runner has executed work of a later holder of the environment, under this fence, and refuses this one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        known_fence: Option<Fence>,
    },
    /// It ended without an answer; nobody knows how far it came.
    Unanswered {
        detail: String,
    },
}

impl Outcome {
    pub const fn never_started(detail: String) -> Self {
        Outcome::NeverStarted { detail, known_fence: None }
    }

    pub const fn as_str(&self) -> &'static str {
        match self {
            Outcome::Succeeded { .. } => "succeeded",
            Outcome::Failed { .. } => "failed",
            Outcome::Stopped => "cancelled",
            Outcome::Interrupted => "interrupted",
            Outcome::Lost => "unknown",
            Outcome::NeverStarted { .. } => "never_started",
            Outcome::Unanswered { .. } => "unanswered",
        }
    }
}

/// What somebody who knows says about an unknown outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolution {
    /// It took effect: go on.
    Ran,
    /// Run it again.
    Retry,
    Fail,
}

/// How the whole deployment stands.
#[derive(Debug, Clone, PartialEq)]
pub enum RunStatus {
    Running,
    Waiting,
    Cancelling(Cancel),
    Succeeded,
    Failed(Failure),
    Cancelled(Cancel),
}
