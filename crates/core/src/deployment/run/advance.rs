//! Applies the consequences of a change to a run, such as starting the next stage. Every decision about a run ends with
//! this.

use super::draft::RunDraft;
use super::gated_steps;
use super::plan::StageType;
use super::report::{self, attempts_exhausted};
use super::state::{AttemptOutcome, StageRunStatus, StepRunStatus};
use crate::deployment::{ExecutionFailure, FailureCode};
use crate::event::EventKind;

pub(super) fn advance(draft: &mut RunDraft<'_>) {
    // Each iteration continues only if its stage has ended, so one pass over the stages is enough.
    for stage in 0..draft.run.stages.len() {
        if draft.run.stages[stage].status == StageRunStatus::Pending {
            enter_or_queue(draft, stage);
        }
        match draft.run.stages[stage].status {
            StageRunStatus::Running | StageRunStatus::Waiting => advance_stage(draft, stage),
            StageRunStatus::Cancelling => wind_down(draft, stage),
            _ => {}
        }
        match draft.run.stages[stage].status {
            StageRunStatus::Succeeded | StageRunStatus::Skipped => {}
            StageRunStatus::Failed | StageRunStatus::Cancelled => return skip_from(draft, stage + 1),
            _ => return,
        }
    }
}

/// Starts the build or environment directly. A pipeline stage admits one deployment at a time, so the run queues for it
/// first.
fn enter_or_queue(draft: &mut RunDraft<'_>, stage: usize) {
    match draft.run.stages[stage].kind {
        StageType::Stage => draft.stage(stage).status = StageRunStatus::Queued,
        StageType::Build | StageType::Environment => start_stage(draft, stage),
    }
}

pub(super) fn start_stage(draft: &mut RunDraft<'_>, stage: usize) {
    let now = draft.now;
    let it = draft.stage(stage);
    it.status = StageRunStatus::Running;
    it.tries += 1;
    it.started_at = Some(now);
    let tries = it.tries;
    let event = draft.stage_event(EventKind::StageStarted, stage).with("try", tries);
    draft.record(event);
}

fn advance_stage(draft: &mut RunDraft<'_>, stage: usize) {
    mark_ready_steps(draft, stage);
    let steps = || draft.run.steps.iter().filter(move |step| step.stage == stage);
    let any = |status: StepRunStatus| steps().any(|step| step.status == status);
    // A step that is being polled counts as running even between its calls.
    let is_alive = any(StepRunStatus::Running) || steps().any(|it| it.is_polling());
    let status = if any(StepRunStatus::Failed) {
        if is_alive { StageRunStatus::Running } else { StageRunStatus::Failed }
    } else if steps().all(|step| step.status.is_passed()) {
        StageRunStatus::Succeeded
    } else if any(StepRunStatus::Waiting) && !is_alive && !any(StepRunStatus::Ready) {
        StageRunStatus::Waiting
    } else {
        StageRunStatus::Running
    };
    match status {
        StageRunStatus::Failed => fail_stage(draft, stage),
        StageRunStatus::Succeeded => {
            let now = draft.now;
            let it = draft.stage(stage);
            (it.status, it.finished_at) = (status, Some(now));
            let event = draft.stage_event(EventKind::StageSucceeded, stage);
            draft.record(event);
        }
        _ if draft.run.stages[stage].status != status => draft.stage(stage).status = status,
        _ => {}
    }
}

/// Repeats until nothing changes, because a step may need a step that comes later in the list.
fn mark_ready_steps(draft: &mut RunDraft<'_>, stage: usize) {
    let positions: Vec<usize> = draft.run.stage_step_positions(stage).collect();
    for _ in 0..=positions.len() {
        let mut moved = false;
        for &at in &positions {
            if draft.run.steps[at].status == StepRunStatus::Pending && is_due(draft, stage, at) {
                decide_step(draft, stage, at);
                moved = true;
            }
        }
        if !moved {
            return;
        }
    }
}

fn is_due(draft: &RunDraft<'_>, stage: usize, at: usize) -> bool {
    let needs = &draft.plan.stages[stage].steps[draft.run.steps[at].index].needs;
    let first = at - draft.run.steps[at].index;
    let is_passed = |need: &usize| draft.run.steps[first + need].status.is_passed();
    needs.iter().all(is_passed)
}

fn decide_step(draft: &mut RunDraft<'_>, stage: usize, at: usize) {
    let index = draft.run.steps[at].index;
    match draft.plan.decide_when(&draft.run, stage, index) {
        Ok(true) if draft.run.steps[at].has_used_all_attempts() => {
            report::fail_step(draft, at, attempts_exhausted());
        }
        Ok(true) if gated_steps::start_wait(draft, at) => {}
        Ok(true) => draft.step(at).status = StepRunStatus::Ready,
        Ok(false) => draft.step(at).status = StepRunStatus::Skipped,
        Err(error) => {
            let detail = format!("its condition cannot be evaluated: {error}");
            report::fail_step(draft, at, ExecutionFailure { cause: FailureCode::NotRunnable, detail });
        }
    }
}

fn fail_stage(draft: &mut RunDraft<'_>, stage: usize) {
    let positions: Vec<usize> = draft.run.stage_step_positions(stage).collect();
    let failed =
        positions.iter().map(|at| &draft.run.steps[*at]).find(|it| it.status == StepRunStatus::Failed);
    let failure = failed.map(|step| {
        let inner = step.failure.clone();
        let (cause, detail) =
            inner.map_or((FailureCode::StepFailed, "it failed".into()), |it| (it.cause, it.detail));
        ExecutionFailure { cause, detail: format!("step \"{}\": {detail}", step.step) }
    });
    fail_stage_with(draft, stage, failure);
}

pub(super) fn fail_stage_with(draft: &mut RunDraft<'_>, stage: usize, failure: Option<ExecutionFailure>) {
    let positions: Vec<usize> = draft.run.stage_step_positions(stage).collect();
    for at in positions {
        if matches!(
            draft.run.steps[at].status,
            StepRunStatus::Pending | StepRunStatus::Ready | StepRunStatus::Waiting
        ) {
            end_unfinished_step(draft, at);
        }
    }
    let event = draft
        .stage_event(EventKind::StageFailed, stage)
        .with_some("cause", failure.as_ref().map(|it| it.cause.as_str()))
        .with_some("detail", failure.as_ref().map(|it| it.detail.as_str()));
    draft.record(event);
    let now = draft.now;
    let it = draft.stage(stage);
    (it.status, it.finished_at, it.failure) = (StageRunStatus::Failed, Some(now), failure);
}

/// Ends an unfinished step of a failed stage. If one of its attempts failed or had an unknown outcome, the step fails,
/// even if it was waiting for a retry; otherwise it is skipped.
fn end_unfinished_step(draft: &mut RunDraft<'_>, at: usize) {
    let step = &draft.run.steps[at];
    if step.failures + step.losses == 0 {
        draft.close_parked(at, AttemptOutcome::Stopped);
        draft.step(at).status = StepRunStatus::Skipped;
        return;
    }
    let unsaid = || ExecutionFailure { cause: FailureCode::Lost, detail: "the outcome is unknown".into() };
    let failure = step.failure.clone().unwrap_or_else(unsaid);
    report::fail_step(draft, at, failure);
}

/// Ends a stage that is being cancelled, once its last running step has stopped.
fn wind_down(draft: &mut RunDraft<'_>, stage: usize) {
    let positions: Vec<usize> = draft.run.stage_step_positions(stage).collect();
    if positions.iter().any(|at| draft.run.steps[*at].live.is_some()) {
        return;
    }
    for at in positions {
        if matches!(
            draft.run.steps[at].status,
            StepRunStatus::Pending | StepRunStatus::Ready | StepRunStatus::Waiting | StepRunStatus::Running
        ) {
            draft.close_parked(at, AttemptOutcome::Stopped);
            draft.step(at).status = StepRunStatus::Cancelled;
        }
    }
    let now = draft.now;
    let it = draft.stage(stage);
    (it.status, it.finished_at) = (StageRunStatus::Cancelled, Some(now));
    let cancel = it.cancel.clone();
    let event = draft
        .stage_event(EventKind::StageCancelled, stage)
        .with_some("cause", cancel.as_ref().map(|cancel| cancel.cause.as_str()))
        .with_some("reason", cancel.as_ref().and_then(|cancel| cancel.reason.as_ref()));
    draft.record(event);
}

/// Ends a stage that is being cancelled, if none of its steps is running, and skips the stages after it.
pub(super) fn settle_cancelled(draft: &mut RunDraft<'_>, stage: usize) {
    wind_down(draft, stage);
    if draft.run.stages[stage].status == StageRunStatus::Cancelled {
        skip_from(draft, stage + 1);
    }
}

/// Skips the stages from `first` on, which will not start. Steps that finished in an earlier try of a stage keep their
/// status.
pub(super) fn skip_from(draft: &mut RunDraft<'_>, first: usize) {
    for stage in first..draft.run.stages.len() {
        if draft.run.stages[stage].status.is_final() {
            continue;
        }
        draft.stage(stage).status = StageRunStatus::Skipped;
        let positions: Vec<usize> = draft.run.stage_step_positions(stage).collect();
        for at in positions {
            if draft.run.steps[at].status == StepRunStatus::Pending {
                draft.step(at).status = StepRunStatus::Skipped;
            }
        }
    }
}
