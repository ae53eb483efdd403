//! Resolves a step whose outcome is unknown: an operator decides how it ended.

use super::draft::RunDraft;
use super::plan::Plan;
use super::report;
use super::state::{OutcomeResolution, Run, StageRunStatus, StepRunStatus};
use crate::decision::{CommandRefusal, RuleDecision};
use crate::deployment::{ExecutionFailure, FailureCode};
use crate::event::EventKind;
use crate::id::StepRunId;
use crate::time::Timestamp;

pub fn resolve(
    run: &Run,
    plan: &Plan,
    step: StepRunId,
    resolution: OutcomeResolution,
    now: Timestamp,
) -> Result<RuleDecision<()>, CommandRefusal> {
    let waiting = |at: &usize| {
        let it = &run.steps[*at];
        // While the stage is being cancelled, no step succeeds or is retried.
        let is_stopping = run.stages[it.stage].status == StageRunStatus::Cancelling;
        it.status == StepRunStatus::Waiting && !it.is_gated() && !is_stopping
    };
    let Some(at) = run.position(step).filter(waiting) else {
        let text = "the outcome of this step is known; there is nothing to resolve";
        return Err(CommandRefusal::InvalidState(text.into()));
    };
    let mut draft = RunDraft::new(run, plan, now);
    let said = match resolution {
        OutcomeResolution::Ran => "ran",
        OutcomeResolution::Retry => "retry",
        OutcomeResolution::Fail => "fail",
    };
    let event = draft.step_event(EventKind::StepResolved, at).with("outcome", said);
    draft.record(event);
    match resolution {
        OutcomeResolution::Ran => {
            let step = draft.step(at);
            (step.status, step.finished_at, step.failure) = (StepRunStatus::Succeeded, Some(now), None);
        }
        OutcomeResolution::Retry => {
            let unknown = run.steps[at].failure.clone();
            report::schedule_retry(&mut draft, at, now, unknown);
        }
        OutcomeResolution::Fail => {
            let detail = "its outcome was unknown and was resolved as failed".to_owned();
            report::fail_step(&mut draft, at, ExecutionFailure { cause: FailureCode::Lost, detail });
        }
    }
    Ok(draft.finish(()))
}
