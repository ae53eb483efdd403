//! Checks reports: the effect of cancellation (`E9`) and `on_lost`, and that late reports have no effect.

use berth_core::deployment::environment::report::RunnerOrder;
use berth_core::deployment::run::limits::{ATTEMPTS_MAX, NEVER_STARTED_PAUSE_S};
use berth_core::deployment::run::{AttemptOutcome, StageRunStatus, StepPlan, StepRunStatus};
use berth_core::step::OnLost;
use berth_core::time::Timestamp;

use super::{ObservedRunStep, RunCheckResult, StepMemory, ensure};
use crate::runs::command::SimulatedEnd;
use crate::runs::simulation::{RunAnswer, RunRequest};

pub(super) fn check(seen: &ObservedRunStep<'_>) -> RunCheckResult {
    let (at, nonce) = match seen.asked {
        RunRequest::Report { at, nonce, .. } | RunRequest::Heartbeat { at, nonce } => (*at, nonce),
        _ => return Ok(()),
    };
    let (before, after) = (&seen.before.steps[at], &seen.after.steps[at]);
    let is_ours = before.live.as_ref().is_some_and(|live| live.nonce == *nonce);
    let is_stopping = seen.before.stages[before.stage].status == StageRunStatus::Cancelling;
    let RunAnswer::Order(order) = seen.told.answer else { unreachable!("a report is answered by an order") };
    if !is_ours {
        ensure!(
            order == RunnerOrder::Stale,
            "stale",
            "a late report of {} was answered {order:?}",
            before.step
        );
        ensure!(!seen.told.is_change, "stale", "a late report of {} was stored", before.step);
        return Ok(());
    }
    let RunRequest::Report { ends, .. } = seen.asked else {
        let right = if is_stopping { RunnerOrder::Cancel } else { RunnerOrder::Continue };
        ensure!(order == right, "order", "{} is still live and got {order:?}", before.step);
        return Ok(());
    };
    ensure!(after.live.is_none(), "E1", "the attempt of {} has ended and is still live", before.step);
    if is_stopping {
        let status = after.status;
        ensure!(
            status == StepRunStatus::Cancelled,
            "E9",
            "{} was told to stop and is {status:?}",
            before.step
        );
        ensure!(after.outputs == before.outputs, "E9", "{} was told to stop and left outputs", before.step);
        return Ok(());
    }
    check_ended(seen, at, *ends)
}

fn check_ended(seen: &ObservedRunStep<'_>, at: usize, ends: SimulatedEnd) -> RunCheckResult {
    let after = &seen.after.steps[at];
    let (name, status) = (&after.step, after.status);
    let planned = seen.plan_of_step(after);
    match ends {
        SimulatedEnd::Succeeded => {
            ensure!(status == StepRunStatus::Succeeded, "E1", "{name} succeeded and is {status:?}");
            let AttemptOutcome::Succeeded { outputs, .. } = ends.outcome(name.as_str()) else {
                return Ok(());
            };
            ensure!(after.outputs == outputs, "E1", "the outputs of {name} were not kept");
        }
        SimulatedEnd::Failed if status == StepRunStatus::Ready => {
            let attempts = planned.retry.map_or(1, |retry| retry.attempts);
            ensure!(attempts > 1, "E1", "{name} failed and is retried without a retry policy");
            ensure!(after.tries < ATTEMPTS_MAX, "E4", "{name} is ready and can never be granted");
        }
        SimulatedEnd::Failed => {
            ensure!(status == StepRunStatus::Failed, "E1", "{name} failed and is {status:?}");
        }
        SimulatedEnd::NeverStarted => {
            let is_back =
                matches!(status, StepRunStatus::Ready | StepRunStatus::Skipped | StepRunStatus::Failed);
            ensure!(is_back, "E1", "{name} never started and is {status:?}");
        }
        SimulatedEnd::Stopped | SimulatedEnd::Interrupted | SimulatedEnd::Lost => {
            let has_failed = seen.after.stages[after.stage].status == StageRunStatus::Failed;
            let is_right = match planned.on_lost {
                OnLost::Ask => {
                    status == StepRunStatus::Waiting || (status == StepRunStatus::Failed && has_failed)
                }
                OnLost::Retry => matches!(status, StepRunStatus::Ready | StepRunStatus::Failed),
                OnLost::Fail => status == StepRunStatus::Failed,
            };
            ensure!(is_right, "on_lost", "{name} was lost, asks to {:?}, and is {status:?}", planned.on_lost);
        }
    }
    Ok(())
}

/// Checks that in a failed stage, a step that has run is shown as succeeded or failed, never as skipped.
pub(super) fn check_left_over(seen: &ObservedRunStep<'_>, memory: &[StepMemory]) -> RunCheckResult {
    for (at, _, after) in seen.steps() {
        if seen.after.stages[after.stage].status == StageRunStatus::Failed && memory[at].has_run {
            let is_told = matches!(after.status, StepRunStatus::Succeeded | StepRunStatus::Failed);
            ensure!(is_told, "E1", "{} ran without success and is shown as {:?}", after.step, after.status);
        }
    }
    Ok(())
}

pub(super) fn update_step_memory(
    memory: &mut StepMemory,
    planned: &StepPlan,
    ends: SimulatedEnd,
    now: Timestamp,
) {
    memory.has_run |= ends != SimulatedEnd::NeverStarted;
    memory.is_unanswered = ends.is_unknown() && planned.on_lost == OnLost::Ask;
    let backoff = planned.retry.map_or(0, |retry| retry.backoff.as_secs());
    memory.earliest = match ends {
        SimulatedEnd::Failed => Some(now.plus_seconds(i64::try_from(backoff).unwrap_or(0))),
        SimulatedEnd::NeverStarted => Some(now.plus_seconds(NEVER_STARTED_PAUSE_S)),
        _ => None,
    };
}
