//! `L16`: each change is written together with exactly one event, and there is no event without a change.

use berth_core::deployment::{DeploymentPurpose, DeploymentState};
use berth_core::environment::{Lock, Session, SessionEndReason, TicketState};
use berth_core::event::{EventKind, NewEvent};
use berth_core::id::SessionId;

use super::moves::StepChanges;
use super::{LockCheckResult, ObservedStep, ensure};
use crate::locks::answer::LockAnswer;
use crate::locks::command::{LockRequest, ReportedOutcome};

/// The expected kind of an event and the id of the record it is about.
type ExpectedEvent = (EventKind, String);

pub(super) fn check(moves: &StepChanges<'_>, seen: &ObservedStep<'_>) -> LockCheckResult {
    let events = &seen.step.decision.events;
    let mut expected = expected_events(moves, seen);
    let mut told: Vec<ExpectedEvent> = events.iter().map(|event| (event.kind, subject_id(event))).collect();
    expected.sort_unstable();
    told.sort_unstable();
    ensure!(told == expected, "L16", "events are {told:?}\n    moves are {expected:?}");
    let is_definition = matches!(
        seen.step.request,
        LockRequest::Redeclare { .. } | LockRequest::Undeclare | LockRequest::Delete { .. }
    );
    let is_silent = events.is_empty() && !seen.step.decision.changes.is_empty();
    ensure!(!is_silent || is_definition, "L16", "a change without an event");
    for event in events {
        check_facts(event, moves, seen)?;
    }
    Ok(())
}

fn subject_id(event: &NewEvent) -> String {
    let fact = |name: &str| event.data.get(name).and_then(|value| value.as_str()).map(str::to_owned);
    let subject = || event.subjects.first().map(|subject| subject.id.clone());
    match event.kind {
        EventKind::TicketQueued
        | EventKind::TicketGranted
        | EventKind::TicketCancelled
        | EventKind::TicketExpired => fact("ticketId"),
        EventKind::SessionClaimed
        | EventKind::SessionExtended
        | EventKind::SessionReleased
        | EventKind::SessionOverridden
        | EventKind::SessionExpired
        | EventKind::SessionExpiring
        | EventKind::SessionHandedOver => fact("sessionId"),
        _ => subject(),
    }
    .unwrap_or_default()
}

fn expected_events(moves: &StepChanges<'_>, seen: &ObservedStep<'_>) -> Vec<ExpectedEvent> {
    let mut told = Vec::new();
    let handed_over = |id: SessionId| {
        moves.ended_sessions().any(|it| {
            it.end
                .as_ref()
                .is_some_and(|end| end.successor == Some(id) && end.reason == SessionEndReason::HandedOver)
        })
    };
    for (old, new) in &moves.sessions {
        let id = new.id.to_string();
        // A hand-over is a single change: one event covers the old and the new session.
        if old.is_none() && !handed_over(new.id) {
            told.push((EventKind::SessionClaimed, id.clone()));
        }
        if let Some(end) = &new.end {
            told.push((end_event_kind(end.reason), id.clone()));
        }
        if new.extensions > old.map_or(0, |old| old.extensions) {
            told.push((EventKind::SessionExtended, id.clone()));
        }
        if new.warned_of != old.and_then(|old| old.warned_of) {
            told.push((EventKind::SessionExpiring, id));
        }
    }
    told.extend(drained_event(moves, seen));
    for (old, new) in &moves.tickets {
        let id = new.id.to_string();
        if old.is_none() {
            told.push((EventKind::TicketQueued, id.clone()));
        }
        match new.status {
            TicketState::Waiting => {}
            TicketState::Granted { .. } => told.push((EventKind::TicketGranted, id)),
            TicketState::Cancelled { .. } => told.push((EventKind::TicketCancelled, id)),
            TicketState::Expired { .. } => told.push((EventKind::TicketExpired, id)),
        }
    }
    add_deployment_events(moves, seen, &mut told);
    told
}

const fn end_event_kind(reason: SessionEndReason) -> EventKind {
    match reason {
        SessionEndReason::Released
        | SessionEndReason::EnvironmentDeleted
        | SessionEndReason::AgentsStopped
        | SessionEndReason::Restored => EventKind::SessionReleased,
        SessionEndReason::HandedOver => EventKind::SessionHandedOver,
        SessionEndReason::Overridden => EventKind::SessionOverridden,
        SessionEndReason::Expired | SessionEndReason::Idle | SessionEndReason::Lease => {
            EventKind::SessionExpired
        }
    }
}

/// Returns the event that is expected when the last work of earlier sessions has stopped, whether or not the holder was
/// waiting for it.
fn drained_event(moves: &StepChanges<'_>, seen: &ObservedStep<'_>) -> Option<ExpectedEvent> {
    let completed = |it: &Session| it.drain.as_ref().is_some_and(|drain| drain.completed_at.is_some());
    let holder_waited = moves.sessions.iter().any(|(old, new)| completed(new) && !old.is_some_and(completed));
    let is_over = seen.step.before.as_ref().is_some_and(Lock::is_contested) && !seen.after.is_contested();
    let id = seen.after.environment.id.to_string();
    (holder_waited || is_over).then_some((EventKind::EnvironmentDrained, id))
}

fn add_deployment_events(moves: &StepChanges<'_>, seen: &ObservedStep<'_>, told: &mut Vec<ExpectedEvent>) {
    for (old, new) in &moves.deployments {
        let id = new.id.to_string();
        if old.is_none() {
            told.push((EventKind::DeploymentQueued, id.clone()));
        }
        let was_running = old.is_some_and(|old| matches!(old.status, DeploymentState::Running));
        let was_cancelling = old.is_some_and(|old| matches!(old.status, DeploymentState::Cancelling(_)));
        let is_cancelling =
            matches!(new.status, DeploymentState::Cancelling(_) | DeploymentState::Cancelled(_));
        if was_running && is_cancelling {
            told.push((EventKind::DeploymentCancelling, id.clone()));
        }
        match &new.status {
            DeploymentState::Queued | DeploymentState::Waiting | DeploymentState::Cancelling(_) => {}
            DeploymentState::Running => told.push((EventKind::DeploymentStarted, id)),
            DeploymentState::Succeeded => {
                if new.target.purpose == DeploymentPurpose::Reset {
                    told.push((EventKind::EnvironmentReset, id.clone()));
                }
                told.push((EventKind::DeploymentSucceeded, id));
            }
            DeploymentState::Failed(_) => told.push((EventKind::DeploymentFailed, id)),
            DeploymentState::Superseded { .. } => told.push((EventKind::DeploymentSuperseded, id)),
            DeploymentState::Cancelled(_) => {
                // E9: a success that is reported after the cancellation is recorded, but has no effect.
                let late = matches!(
                    seen.step.request,
                    LockRequest::Report { outcome: ReportedOutcome::Succeeded, .. }
                );
                if late && (was_running || was_cancelling) {
                    told.push((EventKind::FinishedAfterCancel, id.clone()));
                }
                told.push((EventKind::DeploymentCancelled, id));
            }
        }
    }
    // A deployment that overrides the drain may run at the same time as work of earlier sessions, so the override is
    // recorded.
    if let (LockRequest::Deploy { .. }, LockAnswer::Deployment(it)) =
        (&seen.step.request, &seen.step.decision.answer)
        && it.target.overrides_drain.is_some()
    {
        told.push((EventKind::DrainOverridden, seen.after.environment.id.to_string()));
    }
}

/// Checks the data of an event: the old and new fence, the reason, and the actor.
fn check_facts(event: &NewEvent, moves: &StepChanges<'_>, seen: &ObservedStep<'_>) -> LockCheckResult {
    let number = |name: &str| event.data.get(name).and_then(serde_number);
    let (kind, id) = (event.kind, subject_id(event));
    let session = || moves.sessions.iter().find(|(_, new)| new.id.to_string() == id).map(|(_, new)| *new);
    match kind {
        EventKind::SessionClaimed => {
            let (old, new) = (number("previousFence"), number("fence"));
            let fine = old < new && new == session().map(|it| it.fence.number());
            ensure!(fine, "L16", "an opening event has fences {old:?} to {new:?}");
        }
        EventKind::SessionHandedOver => {
            let (old, new) = (number("fence"), number("newFence"));
            let fine = old < new && new == Some(seen.after.environment.fence.number());
            ensure!(fine, "L16", "a hand-over event has fences {old:?} to {new:?}");
        }
        EventKind::SessionReleased | EventKind::SessionOverridden | EventKind::SessionExpired => {
            let told = event.data.get("endReason").and_then(|value| value.as_str());
            let ended = session().and_then(|it| it.end.as_ref()).map(|end| end.reason.as_str());
            ensure!(told == ended, "L16", "an end event has {told:?}, but the reason is {ended:?}");
            let is_ours =
                kind != EventKind::SessionExpired || event.by.as_ref().is_some_and(|by| by.id.is_none());
            ensure!(is_ours, "L16", "an expiry event names a person");
        }
        _ => {}
    }
    Ok(())
}

fn serde_number(value: &impl ToString) -> Option<i64> {
    value.to_string().parse().ok()
}
