//! `E4`: an unfinished run can always continue, and a finished run has nothing left to do.

use berth_core::deployment::run::{
    Plan, Run, RunStatus, StageRun, StageRunStatus, StageType, StepActivation, StepRun, StepRunStatus,
};
use berth_core::time::Timestamp;

use super::{RunCheckResult, ensure};

pub(super) fn check(plan: &Plan, run: &Run, now: Timestamp) -> RunCheckResult {
    check_stages(plan, run)?;
    check_times(run)?;
    check_status(run)?;
    check_ready_at(run, now)?;
    let open = run.stages.iter().position(|stage| !stage.status.is_final());
    let Some(open) = open else { return check_quiet(run) };
    for earlier in &run.stages[..open] {
        let is_done = earlier.status == StageRunStatus::Succeeded;
        ensure!(is_done, "E4", "the run continues after {}, which is {:?}", earlier.name, earlier.status);
    }
    for later in &run.stages[open + 1..] {
        use StageRunStatus::{Cancelled, Pending, Skipped};
        let is_still = matches!(later.status, Pending | Cancelled | Skipped);
        ensure!(is_still, "E3", "{} is {:?} before its turn", later.name, later.status);
    }
    let steps = || run.steps.iter().filter(|step| step.stage == open);
    let is_alive = steps().any(|step| step.live.is_some());
    let waits = steps().any(|step| step.status == StepRunStatus::Waiting);
    let status = run.stages[open].status;
    let is_moved = match status {
        StageRunStatus::Queued => run.queued_for().is_some_and(|(stage, _)| stage == open),
        StageRunStatus::Running => is_alive || run.next_ready_at().is_some(),
        StageRunStatus::Waiting => waits && !is_alive && run.next_ready_at().is_none(),
        StageRunStatus::Cancelling => is_alive,
        _ => false,
    };
    ensure!(is_moved, "E4", "stage {} is {status:?} and nothing moves it", run.stages[open].name);
    ensure!(!run.status().is_final(), "E4", "the run has ended before its stages");
    ensure!(run.is_alive() == is_alive, "E4", "an attempt is live outside of the open stage");
    Ok(())
}

fn check_quiet(run: &Run) -> RunCheckResult {
    let status = run.status();
    ensure!(status.is_final(), "E4", "all stages have ended and the run is {status:?}");
    ensure!(!run.is_alive(), "E4", "the run is {status:?} and something runs");
    ensure!(run.next_ready_at().is_none(), "E4", "the run is {status:?} and something is ready");
    ensure!(run.queued_for().is_none(), "E4", "the run is {status:?} and waits for a stage");
    use StepRunStatus::{Cancelled, Failed, Skipped, Succeeded};
    let is_over = |step: &StepRun| matches!(step.status, Succeeded | Failed | Cancelled | Skipped);
    let left = run.steps.iter().find(|step| !is_over(step));
    ensure!(left.is_none(), "E4", "the run is {status:?} and a step is not over: {left:?}");
    Ok(())
}

/// Checks that the state of a stage matches its steps.
fn check_stages(plan: &Plan, run: &Run) -> RunCheckResult {
    for (at, stage) in run.stages.iter().enumerate() {
        let steps = || run.steps.iter().filter(move |step| step.stage == at);
        let name = &stage.name;
        match stage.status {
            StageRunStatus::Succeeded if stage.reused_from.is_some() => {
                ensure!(stage.kind == StageType::Build, "E1", "{name} was taken over and is no build");
            }
            StageRunStatus::Succeeded => {
                for step in steps() {
                    let right = match &plan.stages[at].steps[step.index].when {
                        StepActivation::Never => StepRunStatus::Skipped,
                        StepActivation::If(condition) if condition == "false" => StepRunStatus::Skipped,
                        StepActivation::Always | StepActivation::If(_) => StepRunStatus::Succeeded,
                    };
                    ensure!(
                        step.status == right,
                        "E1",
                        "{name} succeeded, {} is {:?}",
                        step.step,
                        step.status
                    );
                }
            }
            StageRunStatus::Failed => {
                let failed = steps().any(|step| step.status == StepRunStatus::Failed);
                ensure!(failed, "E1", "{name} failed and no step of it has");
                ensure!(stage.failure.is_some(), "E1", "{name} failed and does not say why");
            }
            StageRunStatus::Pending => {
                let begun = steps()
                    .find(|step| !matches!(step.status, StepRunStatus::Pending | StepRunStatus::Succeeded));
                ensure!(begun.is_none(), "E3", "{name} has not begun: {begun:?}");
            }
            StageRunStatus::Cancelled | StageRunStatus::Cancelling => {
                ensure!(stage.cancel.is_some(), "E9", "{name} does not say who cancelled it");
            }
            _ => {}
        }
    }
    Ok(())
}

/// Checks that a step or stage has an end time if and only if it has ended.
fn check_times(run: &Run) -> RunCheckResult {
    for stage in &run.stages {
        let is_over = stage.status.is_final() && stage.status != StageRunStatus::Skipped;
        let says = stage.finished_at.is_some();
        ensure!(says == is_over, "times", "{} is {:?} and its end is {says}", stage.name, stage.status);
        let has_begun = stage.started_at.is_some() || !stage.status.is_open();
        ensure!(has_begun, "times", "{} is {:?} and has no beginning", stage.name, stage.status);
    }
    for step in &run.steps {
        let is_reused = run.stages[step.stage].reused_from.is_some();
        let says = step.finished_at.is_some();
        let is_right = match step.status {
            StepRunStatus::Succeeded | StepRunStatus::Failed => says || is_reused,
            // Either is correct: steps that were stopped have an end time, steps that never started have none.
            StepRunStatus::Cancelled => true,
            _ => !says,
        };
        ensure!(is_right, "times", "{} is {:?} and its end is {says}", step.step, step.status);
        let has_begun = step.started_at.is_some() || step.status != StepRunStatus::Running;
        ensure!(has_begun, "times", "{} runs and has no beginning", step.step);
    }
    Ok(())
}

/// Checks that the status of the run, including its failure or cancellation, matches the statuses of its stages.
fn check_status(run: &Run) -> RunCheckResult {
    let first = |status: StageRunStatus| run.stages.iter().find(|stage| stage.status == status);
    let open = run.stages.iter().find(|stage| !stage.status.is_final());
    let status = run.status();
    let is_right = match (&status, open) {
        (RunStatus::Running, Some(open)) => {
            matches!(open.status, StageRunStatus::Queued | StageRunStatus::Running)
        }
        (RunStatus::Waiting, Some(open)) => open.status == StageRunStatus::Waiting,
        (RunStatus::Cancelling(cancel), Some(open)) => {
            open.status == StageRunStatus::Cancelling && open.cancel.as_ref() == Some(cancel)
        }
        (RunStatus::Failed(failure), None) => {
            first(StageRunStatus::Failed).is_some_and(|stage| stage.failure.as_ref() == Some(failure))
        }
        (RunStatus::Cancelled(cancel), None) => {
            first(StageRunStatus::Failed).is_none()
                && first(StageRunStatus::Cancelled).is_some_and(|stage| stage.cancel.as_ref() == Some(cancel))
        }
        (RunStatus::Succeeded, None) => {
            // A superseded run has nothing left to do and counts as succeeded here; only its deployment has the status
            // "superseded".
            let is_done = |stage: &&StageRun| stage.status == StageRunStatus::Succeeded;
            let mut rest = run.stages.iter().skip_while(is_done);
            rest.all(|stage| stage.status == StageRunStatus::Skipped)
        }
        _ => false,
    };
    ensure!(is_right, "E1", "the run is {status:?}, its stages {:?}", run.stages);
    Ok(())
}

fn check_ready_at(run: &Run, now: Timestamp) -> RunCheckResult {
    let is_due = run.next_ready_at().is_some_and(|at| at <= now);
    let ready = run.ready_steps(now);
    ensure!(is_due != ready.is_empty(), "ready_at", "{:?} at {now}, ready {ready:?}", run.next_ready_at());
    if let Some(at) = run.next_ready_at() {
        ensure!(!run.ready_steps(at).is_empty(), "ready_at", "nothing is ready at {at}");
        // Do not go below zero, the time that stands for "ready at any time".
        let earlier = Timestamp::from_micros(at.as_micros().saturating_sub(1).max(0));
        let is_early = earlier < at && !run.ready_steps(earlier).is_empty();
        ensure!(!is_early, "ready_at", "something is ready before {at}");
    }
    Ok(())
}
