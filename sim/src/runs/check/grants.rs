//! `E2` and `E3`: steps are granted only when they may start, and requests for work are idempotent.

use berth_core::deployment::run::{Attempt, StageRunStatus, StepRunStatus};

use super::{ObservedRunStep, RunCheckResult, StepMemory, ensure};
use crate::runs::simulation::{RunAnswer, RunRequest};

pub(super) fn check(seen: &ObservedRunStep<'_>, memory: &[StepMemory]) -> RunCheckResult {
    for (at, before, after) in seen.steps() {
        if let (None, Some(live)) = (&before.live, &after.live) {
            check_opened(seen, memory, at, live)?;
        }
        if let (Some(before), Some(after)) = (&before.live, &after.live) {
            ensure!(before == after, "E2", "attempt {} of {at} became another", before.number);
        }
        let is_running = after.status == StepRunStatus::Running;
        ensure!(after.live.is_some() == is_running, "E2", "{} is {:?}", after.step, after.status);
    }
    let RunRequest::Grant { at, nonce } = seen.asked else { return Ok(()) };
    let live = seen.before.steps[*at].live.as_ref();
    match (&seen.told.answer, live) {
        (RunAnswer::Granted(attempt), Some(live)) => {
            ensure!(live.nonce == *nonce, "E2", "{nonce} got the attempt of {}", live.nonce);
            ensure!(attempt.as_ref() == live, "E2", "the same nonce got another grant");
            ensure!(!seen.told.is_change, "E2", "the same nonce was granted twice");
        }
        (RunAnswer::Granted(attempt), None) => {
            let opened = seen.after.steps[*at].live.as_ref();
            ensure!(opened == Some(attempt), "E2", "what was granted is not what was stored");
            ensure!(attempt.nonce == *nonce, "E2", "the grant bears another nonce");
        }
        (_, Some(live)) => ensure!(live.nonce != *nonce, "E2", "the same nonce was refused its grant"),
        (_, None) => {
            let is_due = seen.before.ready_steps(seen.now).contains(at);
            ensure!(!is_due, "E4", "{} was ready and was refused", seen.before.steps[*at].step);
        }
    }
    Ok(())
}

/// Checks a new attempt when its grant is committed, against the plan and the previous state.
fn check_opened(
    seen: &ObservedRunStep<'_>,
    memory: &[StepMemory],
    at: usize,
    live: &Attempt,
) -> RunCheckResult {
    let step = &seen.before.steps[at];
    let name = &step.step;
    let is_asked = matches!(seen.asked, RunRequest::Grant { at: it, .. } if *it == at);
    ensure!(is_asked, "E3", "{name} began by {:?}", seen.asked);
    ensure!(live.number == step.tries + 1, "E14", "{name} began attempt {}", live.number);
    let stage = &seen.before.stages[step.stage];
    ensure!(
        stage.status == StageRunStatus::Running,
        "E3",
        "{name} began while its stage was {:?}",
        stage.status
    );
    for earlier in &seen.before.stages[..step.stage] {
        let is_done = earlier.status == StageRunStatus::Succeeded;
        ensure!(is_done, "E3", "{name} began while {} was {:?}", earlier.name, earlier.status);
    }
    let stage_steps: Vec<_> = seen.before.steps.iter().filter(|it| it.stage == step.stage).collect();
    for need in &seen.plan_of_step(step).needs {
        let status = stage_steps[*need].status;
        let is_passed = matches!(status, StepRunStatus::Succeeded | StepRunStatus::Skipped);
        ensure!(is_passed, "E3", "{name} began while {} was {status:?}", stage_steps[*need].step);
    }
    let failed = stage_steps.iter().find(|it| it.status == StepRunStatus::Failed);
    ensure!(failed.is_none(), "E3", "{name} began after a failure in its stage");
    ensure!(
        memory[at].earliest.is_none_or(|earliest| earliest <= seen.now),
        "E3",
        "{name} began before its pause was over"
    );
    ensure!(!memory[at].is_unanswered, "on_lost", "{name} started again without being resolved");
    Ok(())
}
