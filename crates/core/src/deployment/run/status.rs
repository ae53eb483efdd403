//! Derives the status of a run from its stages.

use super::state::{Run, RunStatus, StageRun, StageRunStatus};
use crate::deployment::{CancelCause, CancelRequest, ExecutionFailure, FailureCode};
use crate::event::Actor;

impl Run {
    pub fn status(&self) -> RunStatus {
        let is = |status: StageRunStatus| self.stages.iter().find(|stage| stage.status == status);
        if let Some(open) = self.stages.iter().find(|stage| !stage.status.is_final()) {
            return match open.status {
                StageRunStatus::Cancelling => RunStatus::Cancelling(cancel_of(open)),
                StageRunStatus::Waiting => RunStatus::Waiting,
                _ => RunStatus::Running,
            };
        }
        if let Some(failed) = is(StageRunStatus::Failed) {
            let unsaid =
                || ExecutionFailure { cause: FailureCode::StepFailed, detail: "a stage failed".into() };
            return RunStatus::Failed(failed.failure.clone().unwrap_or_else(unsaid));
        }
        match is(StageRunStatus::Cancelled) {
            Some(cancelled) => RunStatus::Cancelled(cancel_of(cancelled)),
            None => RunStatus::Succeeded,
        }
    }

    /// Whether a process of the run may be running.
    pub fn is_alive(&self) -> bool {
        self.steps.iter().any(|step| step.live.is_some())
    }
}

impl RunStatus {
    pub const fn is_final(&self) -> bool {
        matches!(self, RunStatus::Succeeded | RunStatus::Failed(_) | RunStatus::Cancelled(_))
    }
}

fn cancel_of(stage: &StageRun) -> CancelRequest {
    let system_request =
        || CancelRequest { by: Actor::system(), cause: CancelCause::Requested, reason: None };
    stage.cancel.clone().unwrap_or_else(system_request)
}
