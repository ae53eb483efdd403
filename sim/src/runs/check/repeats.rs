//! Idempotency: a repeated request gets the same response and has no further effect.

use berth_core::deployment::environment::report::RunnerOrder;

use super::{ObservedRunStep, RunCheckResult, ensure};
use crate::runs::simulation::{RunAnswer, RunRequest, decide};

pub(super) fn check(seen: &ObservedRunStep<'_>) -> RunCheckResult {
    if !seen.told.is_change || matches!(seen.asked, RunRequest::Enter | RunRequest::Retry { .. }) {
        return Ok(());
    }
    let again = decide(seen.after, seen.plan, seen.asked, seen.now);
    ensure!(again.change.is_none(), "repeats", "{:?} had an effect twice", seen.asked);
    ensure!(again.events.is_empty(), "repeats", "{:?} has two events", seen.asked);
    let is_right = match seen.asked {
        RunRequest::Grant { .. } => again.answer == seen.told.answer,
        RunRequest::Report { .. } => again.answer == RunAnswer::Order(RunnerOrder::Stale),
        RunRequest::Cancel | RunRequest::CancelStage { .. } => again.answer == RunAnswer::Done,
        RunRequest::Resolve { .. } => matches!(again.answer, RunAnswer::Refused(_)),
        _ => true,
    };
    ensure!(is_right, "repeats", "{:?} got {:?} the second time", seen.asked, again.answer);
    Ok(())
}
