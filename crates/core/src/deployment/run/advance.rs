//! Applies the consequences of a change to a run. Every decision about a run ends with it.

use super::draft::Draft;
use super::held;
use super::plan::StageKind;
use super::report::{self, too_often};
use super::state::{Outcome, StageStatus, StepStatus};
use crate::deployment::{Cause, Failure};
use crate::event::EventKind;

pub(super) fn advance(draft: &mut Draft<'_>) {
    // Every iteration ends a stage or stops the loop, so the number of stages bounds it.
    for stage in 0..draft.run.stages.len() {
        if draft.run.stages[stage].status == StageStatus::Pending {
            arrive(draft, stage);
        }
        match draft.run.stages[stage].status {
            StageStatus::Running | StageStatus::Waiting => within(draft, stage),
            StageStatus::Cancelling => wind_down(draft, stage),
            _ => {}
        }
        match draft.run.stages[stage].status {
            StageStatus::Succeeded | StageStatus::Skipped => {}
            StageStatus::Failed | StageStatus::Cancelled => return skip_from(draft, stage + 1),
            _ => return,
        }
    }
}

/// Starts the next stage. Stages run one deployment at a time, so this one queues first.
fn arrive(draft: &mut Draft<'_>, stage: usize) {
    match draft.run.stages[stage].kind {
        StageKind::Stage => draft.stage(stage).status = StageStatus::Queued,
        StageKind::Build | StageKind::Environment => start(draft, stage),
    }
}

pub(super) fn start(draft: &mut Draft<'_>, stage: usize) {
    let now = draft.now;
    let it = draft.stage(stage);
    it.status = StageStatus::Running;
    it.tries += 1;
    it.started_at = Some(now);
    let tries = it.tries;
    let event = draft.about_stage(EventKind::StageStarted, stage).with("try", tries);
    draft.record(event);
}

fn within(draft: &mut Draft<'_>, stage: usize) {
    ready_steps(draft, stage);
    let steps = || draft.run.steps.iter().filter(move |step| step.stage == stage);
    let any = |status: StepStatus| steps().any(|step| step.status == status);
    // A polling step counts as running.
    let is_alive = any(StepStatus::Running) || steps().any(|it| it.is_polling());
    let status = if any(StepStatus::Failed) {
        if is_alive { StageStatus::Running } else { StageStatus::Failed }
    } else if steps().all(|step| step.status.is_passed()) {
        StageStatus::Succeeded
    } else if any(StepStatus::Waiting) && !is_alive && !any(StepStatus::Ready) {
        StageStatus::Waiting
    } else {
        StageStatus::Running
    };
    match status {
        StageStatus::Failed => fail(draft, stage),
        StageStatus::Succeeded => {
            let now = draft.now;
            let it = draft.stage(stage);
            (it.status, it.finished_at) = (status, Some(now));
            let event = draft.about_stage(EventKind::StageSucceeded, stage);
            draft.record(event);
        }
        _ if draft.run.stages[stage].status != status => draft.stage(stage).status = status,
        _ => {}
    }
}

/// Marks steps ready until nothing changes: a step may need one that is later in the list.
fn ready_steps(draft: &mut Draft<'_>, stage: usize) {
    let ats: Vec<usize> = draft.run.of_stage(stage).collect();
    for _ in 0..=ats.len() {
        let mut moved = false;
        for &at in &ats {
            if draft.run.steps[at].status == StepStatus::Pending && is_due(draft, stage, at) {
                decide(draft, stage, at);
                moved = true;
            }
        }
        if !moved {
            return;
        }
    }
}

fn is_due(draft: &Draft<'_>, stage: usize, at: usize) -> bool {
    let needs = &draft.plan.stages[stage].steps[draft.run.steps[at].index].needs;
    let first = at - draft.run.steps[at].index;
    let is_passed = |need: &usize| draft.run.steps[first + need].status.is_passed();
    needs.iter().all(is_passed)
}

fn decide(draft: &mut Draft<'_>, stage: usize, at: usize) {
    let index = draft.run.steps[at].index;
    match draft.plan.decide_when(&draft.run, stage, index) {
        Ok(true) if draft.run.steps[at].is_worn_out() => report::fail(draft, at, too_often()),
        Ok(true) if held::hold(draft, at) => {}
        Ok(true) => draft.step(at).status = StepStatus::Ready,
        Ok(false) => draft.step(at).status = StepStatus::Skipped,
        Err(error) => {
            let detail = format!("its condition cannot be evaluated: {error}");
            report::fail(draft, at, Failure { cause: Cause::NotRunnable, detail });
        }
    }
}

fn fail(draft: &mut Draft<'_>, stage: usize) {
    let ats: Vec<usize> = draft.run.of_stage(stage).collect();
    let failed = ats.iter().map(|at| &draft.run.steps[*at]).find(|it| it.status == StepStatus::Failed);
    let failure = failed.map(|step| {
        let inner = step.failure.clone();
        let (cause, detail) =
            inner.map_or((Cause::StepFailed, "it failed".into()), |it| (it.cause, it.detail));
        Failure { cause, detail: format!("step \"{}\": {detail}", step.step) }
    });
    fail_for(draft, stage, failure);
}

pub(super) fn fail_for(draft: &mut Draft<'_>, stage: usize, failure: Option<Failure>) {
    let ats: Vec<usize> = draft.run.of_stage(stage).collect();
    for at in ats {
        if matches!(draft.run.steps[at].status, StepStatus::Pending | StepStatus::Ready | StepStatus::Waiting)
        {
            leave(draft, at);
        }
    }
    let event = draft
        .about_stage(EventKind::StageFailed, stage)
        .with_some("cause", failure.as_ref().map(|it| it.cause.as_str()))
        .with_some("detail", failure.as_ref().map(|it| it.detail.as_str()));
    draft.record(event);
    let now = draft.now;
    let it = draft.stage(stage);
    (it.status, it.finished_at, it.failure) = (StageStatus::Failed, Some(now), failure);
}

/// Ends a step whose stage failed. A step shows its latest attempt: one that ran without success or with an unknown
/// outcome has failed, even if a retry was due.
fn leave(draft: &mut Draft<'_>, at: usize) {
    let step = &draft.run.steps[at];
    if step.failures + step.losses == 0 {
        draft.close_parked(at, Outcome::Stopped);
        draft.step(at).status = StepStatus::Skipped;
        return;
    }
    let unsaid = || Failure { cause: Cause::Lost, detail: "the outcome is unknown".into() };
    let failure = step.failure.clone().unwrap_or_else(unsaid);
    report::fail(draft, at, failure);
}

/// Ends a failed or cancelled stage once its last running step has stopped.
fn wind_down(draft: &mut Draft<'_>, stage: usize) {
    let ats: Vec<usize> = draft.run.of_stage(stage).collect();
    if ats.iter().any(|at| draft.run.steps[*at].live.is_some()) {
        return;
    }
    for at in ats {
        if matches!(
            draft.run.steps[at].status,
            StepStatus::Pending | StepStatus::Ready | StepStatus::Waiting | StepStatus::Running
        ) {
            draft.close_parked(at, Outcome::Stopped);
            draft.step(at).status = StepStatus::Cancelled;
        }
    }
    let now = draft.now;
    let it = draft.stage(stage);
    (it.status, it.finished_at) = (StageStatus::Cancelled, Some(now));
    let cancel = it.cancel.clone();
    let event = draft
        .about_stage(EventKind::StageCancelled, stage)
        .with_some("cause", cancel.as_ref().map(|cancel| cancel.cause.as_str()))
        .with_some("reason", cancel.as_ref().and_then(|cancel| cancel.reason.as_ref()));
    draft.record(event);
}

/// Ends a cancelled stage if none of its steps is running, and skips the stages after it.
pub(super) fn settle_cancelled(draft: &mut Draft<'_>, stage: usize) {
    wind_down(draft, stage);
    if draft.run.stages[stage].status == StageStatus::Cancelled {
        skip_from(draft, stage + 1);
    }
}

/// Skips stages that will not start. Finished steps keep their status, including those of an earlier try.
pub(super) fn skip_from(draft: &mut Draft<'_>, first: usize) {
    for stage in first..draft.run.stages.len() {
        if draft.run.stages[stage].status.is_final() {
            continue;
        }
        draft.stage(stage).status = StageStatus::Skipped;
        let ats: Vec<usize> = draft.run.of_stage(stage).collect();
        for at in ats {
            if draft.run.steps[at].status == StepStatus::Pending {
                draft.step(at).status = StepStatus::Skipped;
            }
        }
    }
}
