//! Checks requests by people: cancel (`E9`), retry (`E10`) and resolve.

use berth_core::deployment::run::retry::RetryStart;
use berth_core::deployment::run::{OutcomeResolution, StageRunStatus, StepRunStatus};

use super::{ObservedRunStep, RunCheckResult, ensure};
use crate::runs::simulation::RunRequest;

pub(super) fn check(seen: &ObservedRunStep<'_>) -> RunCheckResult {
    match seen.asked {
        RunRequest::Cancel => check_cancel(seen),
        RunRequest::CancelStage { stage } => check_cancel_stage(seen, *stage),
        RunRequest::Retry { stage, from } => check_retry(seen, *stage, *from),
        RunRequest::Resolve { at, resolution } => check_resolve(seen, *at, *resolution),
        RunRequest::Superseded => check_superseded(seen),
        _ => Ok(()),
    }
}

fn check_cancel(seen: &ObservedRunStep<'_>) -> RunCheckResult {
    let current = seen.before.stages.iter().position(|stage| !stage.status.is_final());
    let Some(current) = current else {
        ensure!(!seen.told.is_change, "E9", "a run that has ended was cancelled");
        return Ok(());
    };
    check_stopped(seen, current)?;
    ensure!(seen.after.ready_steps(seen.now).is_empty(), "E9", "something is ready after a cancellation");
    ensure!(seen.after.queued_for().is_none(), "E9", "a cancelled run waits for a stage");
    Ok(())
}

fn check_cancel_stage(seen: &ObservedRunStep<'_>, stage: usize) -> RunCheckResult {
    use StageRunStatus::{Failed, Skipped, Succeeded};
    let status = seen.before.stages[stage].status;
    let is_over = matches!(status, Succeeded | Failed | Skipped);
    ensure!(seen.is_refused() == is_over, "E9", "a stage that was {status:?}: {:?}", seen.told.answer);
    if is_over { Ok(()) } else { check_stopped(seen, stage) }
}

/// Checks that running attempts continue until they report that they have stopped.
fn check_stopped(seen: &ObservedRunStep<'_>, stage: usize) -> RunCheckResult {
    use StageRunStatus::{Cancelled, Cancelling};
    let of_stage = |at: &usize| seen.after.steps[*at].stage == stage;
    let is_alive = (0..seen.after.steps.len()).filter(of_stage).any(|at| seen.after.steps[at].live.is_some());
    let right = if is_alive { Cancelling } else { Cancelled };
    let status = seen.after.stages[stage].status;
    ensure!(status == right, "E9", "a cancelled stage is {status:?}, should be {right:?}");
    let is_new = !matches!(seen.before.stages[stage].status, Cancelling | Cancelled);
    ensure!(is_new == seen.told.is_change, "E9", "cancelling is idempotent");
    if status == Cancelled {
        for later in &seen.after.stages[stage + 1..] {
            let is_over = matches!(later.status, Cancelled | StageRunStatus::Skipped);
            ensure!(is_over, "E9", "{} comes after a cancelled stage and is {:?}", later.name, later.status);
        }
    }
    Ok(())
}

fn check_retry(seen: &ObservedRunStep<'_>, stage: usize, from: RetryStart) -> RunCheckResult {
    let status = seen.before.stages[stage].status;
    let may = status == StageRunStatus::Failed;
    ensure!(seen.is_refused() != may, "E10", "a retry of a stage that is {status:?}: {:?}", seen.told.answer);
    if !may {
        return Ok(());
    }
    for (_, before, after) in seen.steps() {
        let has_succeeded = before.status == StepRunStatus::Succeeded;
        if before.stage < stage || (has_succeeded && from == RetryStart::Failed) {
            ensure!(before == after, "E10", "{} succeeded and the retry touched it", before.step);
            continue;
        }
        if before.stage == stage {
            let is_again = !matches!(after.status, StepRunStatus::Succeeded | StepRunStatus::Cancelled);
            ensure!(is_again, "E10", "{} is {:?} after a retry", after.step, after.status);
            ensure!(after.outputs.is_empty(), "E10", "{} keeps outputs of an earlier attempt", after.step);
            ensure!(after.failures == 0, "E10", "{} begins with failures", after.step);
        }
    }
    Ok(())
}

fn check_resolve(seen: &ObservedRunStep<'_>, at: usize, resolution: OutcomeResolution) -> RunCheckResult {
    let (before, after) = (&seen.before.steps[at], &seen.after.steps[at]);
    let stage = seen.before.stages[before.stage].status;
    let is_open = matches!(stage, StageRunStatus::Running | StageRunStatus::Waiting);
    let may = before.status == StepRunStatus::Waiting && is_open;
    ensure!(
        seen.is_refused() != may,
        "resolve",
        "{} is {:?} in a stage that is {stage:?}: {:?}",
        before.step,
        before.status,
        seen.told.answer
    );
    if !may {
        return Ok(());
    }
    let is_right = match resolution {
        OutcomeResolution::Ran => after.status == StepRunStatus::Succeeded,
        // If there were too many attempts, the step fails instead of being retried.
        OutcomeResolution::Retry => matches!(after.status, StepRunStatus::Ready | StepRunStatus::Failed),
        OutcomeResolution::Fail => after.status == StepRunStatus::Failed,
    };
    ensure!(is_right, "resolve", "{} was resolved by {resolution:?} and is {:?}", after.step, after.status);
    Ok(())
}

/// Checks that a superseded run ends at the stage it was waiting for, and keeps the results of earlier stages.
fn check_superseded(seen: &ObservedRunStep<'_>) -> RunCheckResult {
    let was_queued = seen.before.queued_for().is_some();
    ensure!(was_queued == seen.told.is_change, "superseded", "one that does not wait was overtaken");
    let is_over = seen.after.status().is_final();
    ensure!(!was_queued || is_over, "superseded", "it was overtaken and is {:?}", seen.after.status());
    for (_, before, after) in seen.steps() {
        let has_succeeded = before.status == StepRunStatus::Succeeded;
        ensure!(!has_succeeded || before == after, "superseded", "{} had succeeded", before.step);
    }
    Ok(())
}
