//! Resolves a step with an unknown outcome: an operator says what happened.

use super::draft::Draft;
use super::plan::Plan;
use super::report;
use super::state::{Resolution, Run, StageStatus, StepStatus};
use crate::decision::{Decision, Refusal};
use crate::deployment::{Cause, Failure};
use crate::event::EventKind;
use crate::id::StepRunId;
use crate::time::Timestamp;

pub fn resolve(
    run: &Run,
    plan: &Plan,
    step: StepRunId,
    resolution: Resolution,
    now: Timestamp,
) -> Result<Decision<()>, Refusal> {
    let waiting = |at: &usize| {
        let it = &run.steps[*at];
        // In a cancelling stage nothing succeeds and nothing is retried.
        let is_stopping = run.stages[it.stage].status == StageStatus::Cancelling;
        it.status == StepStatus::Waiting && !it.is_held() && !is_stopping
    };
    let Some(at) = run.position(step).filter(waiting) else {
        let text = "the outcome of this step is known; there is nothing to resolve";
        return Err(Refusal::InvalidState(text.into()));
    };
    let mut draft = Draft::of(run, plan, now);
    let said = match resolution {
        Resolution::Ran => "ran",
        Resolution::Retry => "retry",
        Resolution::Fail => "fail",
    };
    let event = draft.about_step(EventKind::StepResolved, at).with("outcome", said);
    draft.record(event);
    match resolution {
        Resolution::Ran => {
            let step = draft.step(at);
            (step.status, step.finished_at, step.failure) = (StepStatus::Succeeded, Some(now), None);
        }
        Resolution::Retry => {
            let unknown = run.steps[at].failure.clone();
            report::again(&mut draft, at, now, unknown);
        }
        Resolution::Fail => {
            let detail = "its outcome was unknown and was resolved as failed".to_owned();
            report::fail(&mut draft, at, Failure { cause: Cause::Lost, detail });
        }
    }
    Ok(draft.finish(()))
}
