//! Every change has exactly one event, and there is no event without a change.

use berth_core::deployment::run::{OutcomeResolution, StageRunStatus, StepRun, StepRunStatus};
use berth_core::event::{EventKind, NewEvent};
use berth_core::step::OnLost;

use super::{ObservedRunStep, RunCheckResult, ensure};
use crate::runs::command::SimulatedEnd;
use crate::runs::simulation::RunRequest;

/// The kind of an event, and the name of the step or stage it is about.
type RunEvent<'a> = (EventKind, &'a str);

pub(super) fn check(seen: &ObservedRunStep<'_>) -> RunCheckResult {
    let mut told: Vec<RunEvent<'_>> = seen.told.events.iter().map(event_subject).collect();
    if !seen.told.is_change {
        return Ok(());
    }
    let mut expected = Vec::new();
    expect_step_events(seen, &mut expected, &mut told);
    expect_stage_events(seen, &mut expected);
    expected.sort_unstable();
    told.sort_unstable();
    ensure!(expected == told, "events", "{:?}: events {told:?}, expected {expected:?}", seen.asked);
    Ok(())
}

fn event_subject(event: &NewEvent) -> RunEvent<'_> {
    let step = event.subjects.iter().find(|subject| subject.kind == "step");
    let name = step.and_then(|subject| subject.name.as_deref());
    (event.kind, name.or_else(|| event.data["stage"].as_str()).unwrap_or_default())
}

fn expect_step_events<'a>(
    seen: &ObservedRunStep<'a>,
    expected: &mut Vec<RunEvent<'a>>,
    told: &mut Vec<RunEvent<'_>>,
) {
    for (at, before, after) in seen.steps() {
        let name = after.step.as_str();
        let has_failed = after.status == StepRunStatus::Failed;
        if after.tries > before.tries {
            expected.push((EventKind::StepStarted, name));
        }
        match seen.asked {
            RunRequest::Report { at: it, ends, .. } if *it == at => {
                reported_event(seen, before, after, *ends, expected);
                if *ends == SimulatedEnd::NeverStarted && has_failed {
                    // The step may have been retried, with an event of its own, before its stage failed.
                    told.retain(|news| *news != (EventKind::StepRetried, name));
                }
            }
            RunRequest::Resolve { at: it, resolution } if *it == at => {
                expected.push((EventKind::StepResolved, name));
                match resolution {
                    OutcomeResolution::Ran => {}
                    _ if has_failed => expected.push((EventKind::StepFailed, name)),
                    _ => expected.push((EventKind::StepRetried, name)),
                }
            }
            RunRequest::Retry { stage, .. } if after.stage == *stage && has_failed => {
                expected.push((EventKind::StepFailed, name));
            }
            _ if has_failed && before.status != StepRunStatus::Failed => {
                expected.push((EventKind::StepFailed, name));
            }
            _ => {}
        }
    }
}

fn reported_event<'a>(
    seen: &ObservedRunStep<'a>,
    before: &StepRun,
    after: &'a StepRun,
    ends: SimulatedEnd,
    expected: &mut Vec<RunEvent<'a>>,
) {
    let name = after.step.as_str();
    if seen.before.stages[before.stage].status == StageRunStatus::Cancelling {
        let has_succeeded = ends == SimulatedEnd::Succeeded;
        let kind = if has_succeeded { EventKind::FinishedAfterCancel } else { EventKind::StepCancelled };
        return expected.push((kind, name));
    }
    if ends.is_unknown() && seen.plan_of_step(after).on_lost == OnLost::Ask {
        expected.push((EventKind::StepUnknown, name));
    }
    match after.status {
        StepRunStatus::Succeeded => expected.push((EventKind::StepSucceeded, name)),
        StepRunStatus::Failed => expected.push((EventKind::StepFailed, name)),
        StepRunStatus::Ready | StepRunStatus::Skipped => expected.push((EventKind::StepRetried, name)),
        _ => {}
    }
}

fn expect_stage_events<'a>(seen: &ObservedRunStep<'a>, expected: &mut Vec<RunEvent<'a>>) {
    let pairs = seen.before.stages.iter().zip(&seen.after.stages);
    for (at, (before, after)) in pairs.enumerate() {
        let name = after.name.as_str();
        let is_retried = matches!(seen.asked, RunRequest::Retry { stage, .. } if *stage == at);
        if is_retried {
            expected.push((EventKind::StageRetried, name));
        }
        if after.tries > before.tries {
            expected.push((EventKind::StageStarted, name));
        }
        if before.status == after.status && !is_retried {
            continue;
        }
        let is_cancel = matches!(seen.asked, RunRequest::Cancel | RunRequest::CancelStage { .. });
        match after.status {
            StageRunStatus::Succeeded => expected.push((EventKind::StageSucceeded, name)),
            StageRunStatus::Failed => expected.push((EventKind::StageFailed, name)),
            StageRunStatus::Cancelling => expected.push((EventKind::StageCancelling, name)),
            StageRunStatus::Cancelled => {
                expected.extend(is_cancel.then_some((EventKind::StageCancelling, name)));
                expected.push((EventKind::StageCancelled, name));
            }
            _ => {}
        }
    }
}
