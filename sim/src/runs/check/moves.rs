//! `E1`: states change only along the documented state graph.

use berth_core::deployment::run::limits::ATTEMPTS_MAX;
use berth_core::deployment::run::{StageRunStatus, StageType, StepActivation, StepRunStatus};

use super::{ObservedRunStep, RunCheckResult, ensure};
use crate::runs::simulation::RunRequest;

pub(super) fn check(seen: &ObservedRunStep<'_>) -> RunCheckResult {
    ensure!(seen.before.steps.len() == seen.after.steps.len(), "E1", "a step came or went");
    for (at, before, after) in seen.steps() {
        ensure!(before.id == after.id && before.step == after.step, "E1", "{} is another step", before.step);
        ensure!(
            step_may(seen, at, before.status, after.status),
            "E1",
            "{} went from {:?} to {:?} by {:?}",
            before.step,
            before.status,
            after.status,
            seen.asked
        );
        let opened = u32::from(before.live.is_none() && after.live.is_some());
        ensure!(
            after.tries == before.tries + opened,
            "E14",
            "{} counted {} attempts, then {}",
            after.step,
            before.tries,
            after.tries
        );
    }
    for (at, (before, after)) in seen.before.stages.iter().zip(&seen.after.stages).enumerate() {
        ensure!(
            stage_may(seen.asked, at, before.status, after.status)
                && (after.kind != StageType::Stage || is_admitted(seen.asked, before.status, after.status)),
            "E1",
            "stage {} went from {:?} to {:?} by {:?}",
            before.name,
            before.status,
            after.status,
            seen.asked
        );
    }
    Ok(())
}

/// Returns whether a command may change a step from one state to another, possibly over several edges of the graph.
fn step_may(seen: &ObservedRunStep<'_>, at: usize, from: StepRunStatus, to: StepRunStatus) -> bool {
    use StepRunStatus::{Cancelled, Failed, Pending, Ready, Running, Skipped, Succeeded, Waiting};
    let is_reported = matches!(seen.asked, RunRequest::Report { at: it, .. } if *it == at);
    let is_resolved = matches!(seen.asked, RunRequest::Resolve { at: it, .. } if *it == at);
    let stage = seen.after.stages[seen.after.steps[at].stage].status;
    match (from, to) {
        (Pending, Ready) | (Pending | Ready, Skipped) => true,
        // The step had too many attempts, or its condition is invalid.
        (Pending, Failed) => {
            let step = &seen.after.steps[at];
            step.tries >= ATTEMPTS_MAX || matches!(seen.plan_of_step(step).when, StepActivation::If(_))
        }
        (Ready, Running) => matches!(seen.asked, RunRequest::Grant { at: it, .. } if *it == at),
        (Ready | Waiting, Failed) => is_resolved || stage == StageRunStatus::Failed,
        (Running, Succeeded | Failed | Ready | Waiting | Cancelled | Skipped) => is_reported,
        (Waiting, Succeeded | Ready) => is_resolved,
        (Pending | Ready | Waiting, Cancelled) => stage == StageRunStatus::Cancelled,
        (Failed | Skipped | Succeeded, Pending | Ready | Skipped | Failed) if from != to => {
            matches!(seen.asked, RunRequest::Retry { .. })
        }
        _ => from == to,
    }
}

fn stage_may(asked: &RunRequest, at: usize, from: StageRunStatus, to: StageRunStatus) -> bool {
    use StageRunStatus::{
        Cancelled, Cancelling, Failed, Pending, Queued, Running, Skipped, Succeeded, Waiting,
    };
    let is_cancel = match asked {
        RunRequest::Cancel => true,
        RunRequest::CancelStage { stage } => *stage == at,
        _ => false,
    };
    let is_retry = matches!(asked, RunRequest::Retry { stage, .. } if at >= *stage);
    match (from, to) {
        (Pending, Queued | Running | Succeeded | Skipped | Failed) => true,
        (Queued, Running | Succeeded | Failed) => matches!(asked, RunRequest::Enter),
        (Running, Waiting | Succeeded | Failed) => true,
        (Waiting, Running | Succeeded | Failed) => matches!(asked, RunRequest::Resolve { .. }),
        (Running, Cancelling) | (Pending | Queued | Running | Waiting, Cancelled) => is_cancel,
        (Queued, Skipped) => matches!(asked, RunRequest::Superseded),
        (Cancelling, Cancelled) => matches!(asked, RunRequest::Report { .. }),
        // A retried stage may end at once, because nothing is left to do or a step had too many attempts.
        (Failed, Pending | Queued | Running | Succeeded) => is_retry,
        (Skipped, Pending | Queued | Running | Succeeded | Failed) => is_retry,
        _ => from == to,
    }
}

/// Returns whether the change is allowed for an exclusive stage, which starts only if a request lets it, never by
/// itself.
fn is_admitted(asked: &RunRequest, from: StageRunStatus, to: StageRunStatus) -> bool {
    use StageRunStatus::{Failed, Pending, Queued, Running, Skipped, Succeeded, Waiting};
    let begins =
        matches!(from, Pending | Queued | Skipped | Failed) && matches!(to, Running | Waiting | Succeeded);
    !begins || (from == Queued && *asked == RunRequest::Enter)
}
