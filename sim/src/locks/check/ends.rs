//! Checks why sessions end and what follows: each end has a cause, the session's work cannot start anymore, the reset
//! gets a fence, and the next ticket is granted.

use berth_core::deployment::{DeploymentPurpose, DeploymentState};
use berth_core::environment::claim::ClaimOutcome;
use berth_core::environment::{EnvironmentCondition, Lock, Session, SessionEndReason, Ticket, TicketState};
use berth_core::pipeline::model::ReleaseAction;

use super::moves::StepChanges;
use super::{EnvironmentMemory, LockCheckResult, ObservedStep, ensure};
use crate::locks::answer::LockAnswer;
use crate::locks::command::LockRequest;
use crate::locks::fixtures;

pub(super) fn check(
    memory: &EnvironmentMemory,
    before: &Lock,
    moves: &StepChanges<'_>,
    seen: &ObservedStep<'_>,
) -> LockCheckResult {
    for session in moves.ended_sessions() {
        check_cause(before, session, moves, seen)?;
        check_reset(memory, before, session, moves, seen)?;
    }
    check_grants(before, moves, seen)?;
    check_openings(moves, seen)
}

fn check_cause(
    before: &Lock,
    session: &Session,
    moves: &StepChanges<'_>,
    seen: &ObservedStep<'_>,
) -> LockCheckResult {
    let Some(end) = &session.end else { return Ok(()) };
    let (number, now) = (session.number, seen.step.moment.now);
    ensure!(end.at == now, "L6", "session {number} ended at another time than now");
    let request = &seen.step.request;
    let is_named = seen.step.subject.session.as_ref().is_some_and(|it| it.id == session.id);
    let is_holder = |by: u8| fixtures::person(by).id == session.holder.id;
    let fine = match (end.reason, request) {
        (SessionEndReason::Released, LockRequest::Release { by, may_force, .. }) => {
            is_named && (is_holder(*by) || *may_force)
        }
        (SessionEndReason::HandedOver, LockRequest::HandOver { by, .. }) => is_named && is_holder(*by),
        (SessionEndReason::EnvironmentDeleted, LockRequest::Delete { .. }) => true,
        (SessionEndReason::Overridden, request) => {
            is_taken_by(request, session, seen) || is_due_takeover(before, session, moves, seen)
        }
        // `clock::check_ends` checks whether the expiry was correct. Here, only check that no person is named as the
        // cause.
        (SessionEndReason::Expired | SessionEndReason::Idle | SessionEndReason::Lease, _) => {
            end.by.id.is_none()
        }
        _ => false,
    };
    ensure!(fine, "L4", "session {number} ended as {} by {request:?}", end.reason.as_str());
    Ok(())
}

fn is_taken_by(request: &LockRequest, session: &Session, seen: &ObservedStep<'_>) -> bool {
    let (LockRequest::Force { by, .. }, LockAnswer::Claimed(claimed)) = (request, &seen.step.decision.answer)
    else {
        return false;
    };
    let is_by = session.end.as_ref().is_some_and(|end| end.by.id == Some(fixtures::person(*by).id));
    let expected = seen.step.subject.expected;
    matches!(claimed.as_ref(), ClaimOutcome::Session(_))
        && is_by
        && expected.is_none_or(|fence| fence == session.fence)
}

/// Returns whether a take-over is due: its grace period is over, or the work that it waits for has ended.
fn is_due_takeover(
    before: &Lock,
    session: &Session,
    moves: &StepChanges<'_>,
    seen: &ObservedStep<'_>,
) -> bool {
    let ours = |ticket: &&Ticket| ticket.takeover.as_ref().is_some_and(|plan| plan.target == session.id);
    let Some(ticket) = moves.granted_tickets().find(ours) else { return false };
    let is_known = before.tickets.iter().any(|it| it.id == ticket.id)
        || matches!(seen.step.request, LockRequest::Force { .. });
    let Some(plan) = &ticket.takeover else { return false };
    let runs = seen
        .after
        .deployments
        .iter()
        .any(|it| it.target.purpose == DeploymentPurpose::Session(session.id) && it.attempt().is_some());
    is_known
        && match plan.at {
            Some(at) => at <= seen.step.moment.now,
            None => !runs,
        }
}

/// Checks that an environment that was deployed to is reset, if its definition requires that and no other reset is
/// planned.
fn check_reset(
    memory: &EnvironmentMemory,
    before: &Lock,
    session: &Session,
    moves: &StepChanges<'_>,
    seen: &ObservedStep<'_>,
) -> LockCheckResult {
    let reason = session.end.as_ref().map(|end| end.reason);
    let is_plain = matches!(
        reason,
        Some(
            SessionEndReason::Released
                | SessionEndReason::Expired
                | SessionEndReason::Idle
                | SessionEndReason::Lease
        )
    );
    let is_under_way = before.deployments.iter().any(|it| {
        it.target.purpose == DeploymentPurpose::Reset && !matches!(it.status, DeploymentState::Cancelling(_))
    });
    let environment = &before.environment;
    let wanted = is_plain
        && environment.configuration.on_release == ReleaseAction::DeployTracked
        && environment.is_declared
        && memory.condition != EnvironmentCondition::Clean
        && seen.surroundings.is_tracked
        && !is_under_way;
    let planned = moves.planned_deployments().find(|it| {
        it.target.purpose == DeploymentPurpose::Reset
            && it.target.fence.counter() == session.fence.counter() + 1
    });
    ensure!(
        planned.is_some() == wanted,
        "reset",
        "session {} ended, a reset was {}wanted and {}planned",
        session.number,
        if wanted { "" } else { "not " },
        if planned.is_some() { "" } else { "not " }
    );
    if let Some(reset) = planned {
        ensure!(reset.commit == fixtures::tracked_commit(), "reset", "it deploys {}", reset.commit);
    }
    Ok(())
}

/// L17: tickets are granted in order, only while they are valid, and on the requested terms.
fn check_grants(before: &Lock, moves: &StepChanges<'_>, seen: &ObservedStep<'_>) -> LockCheckResult {
    let now = seen.step.moment.now;
    let is_valid = |ticket: &Ticket| is_valid(ticket, seen);
    for ticket in moves.granted_tickets() {
        let number = ticket.number;
        ensure!(is_valid(ticket), "L17", "ticket {number} was granted and is not valid");
        let place = |it: &Ticket| (it.takeover.is_none(), it.number);
        // Like a forced claim, a take-over may be granted before earlier tickets that wait for the session to end.
        let target = |it: &Ticket| it.takeover.as_ref().map(|plan| plan.target);
        let taken = target(ticket).filter(|target| {
            let overridden =
                |it: &Session| it.end.as_ref().is_some_and(|end| end.reason == SessionEndReason::Overridden);
            moves.ended_sessions().any(|it| it.id == *target && overridden(it))
        });
        let earlier = before.tickets.iter().filter(|it| place(it) < place(ticket) && is_valid(it));
        let earlier = earlier.filter(|it| taken.is_none() || target(it) == taken);
        let has_left = |it: &Ticket| moves.tickets.iter().any(|(_, new)| new.id == it.id);
        let passed = earlier.filter(|it| !has_left(it)).count();
        ensure!(passed == 0, "L17", "ticket {number} was granted before {passed} others");
        let TicketState::Granted { at, session, deployment } = &ticket.status else { continue };
        let opened = moves.opened_sessions().find(|it| it.id == *session);
        let fine = opened.is_some_and(|it| it.holder == ticket.holder) && *at == now;
        ensure!(fine, "L17", "ticket {number} was granted to no or a different person");
        let wanted = ticket.terms.commit.as_ref().filter(|_| ticket.terms.deploy);
        let planned = moves.planned_deployments().find(|it| Some(it.id) == *deployment);
        ensure!(
            planned.map(|it| &it.commit) == wanted,
            "rule 6",
            "ticket {number} carries {wanted:?} and {:?} is deployed",
            planned.map(|it| &it.commit)
        );
    }
    for (old, ticket) in &moves.tickets {
        let fine = match &ticket.status {
            TicketState::Waiting => old.is_none_or(|old| old == *ticket),
            TicketState::Granted { .. } => true,
            TicketState::Expired { at } => *at == now && ticket.expires_at <= now,
            TicketState::Cancelled { at, .. } => {
                let is_named = seen.step.subject.ticket.as_ref().is_some_and(|it| it.id == ticket.id);
                let is_asked = match &seen.step.request {
                    LockRequest::Leave { by, may_force, .. } => {
                        is_named && (*may_force || ticket.holder.id == fixtures::person(*by).id)
                    }
                    LockRequest::Undeclare | LockRequest::Delete { .. } => true,
                    _ => false,
                };
                *at == now && (is_asked || !is_entitled(ticket, seen))
            }
        };
        ensure!(fine, "L17", "ticket {} became {}", ticket.number, ticket.status.as_str());
    }
    Ok(())
}

/// L3: a session is opened only by a claim, a ticket, a take-over or a hand-over, and only in a declared environment.
fn check_openings(moves: &StepChanges<'_>, seen: &ObservedStep<'_>) -> LockCheckResult {
    for session in moves.opened_sessions() {
        let granted = moves
            .granted_tickets()
            .any(|it| matches!(it.status, TicketState::Granted { session: id, .. } if id == session.id));
        let asked = match &seen.step.request {
            LockRequest::Claim { by, .. } | LockRequest::Force { by, .. } => {
                fixtures::person(*by).id == session.holder.id
            }
            LockRequest::HandOver { to, .. } => fixtures::person(*to).id == session.holder.id,
            _ => false,
        };
        ensure!(granted || asked, "L3", "session {} was opened without a request", session.number);
        let was_declared = seen.step.before.as_ref().is_some_and(|it| it.environment.is_declared);
        ensure!(was_declared, "L18", "session {} was opened in a place that is gone", session.number);
    }
    Ok(())
}

pub(super) fn is_entitled(ticket: &Ticket, seen: &ObservedStep<'_>) -> bool {
    let people = &seen.surroundings.revoked_people;
    let tokens = &seen.surroundings.revoked_tokens;
    !people.iter().any(|person| fixtures::person(*person).id == ticket.holder.id)
        && !tokens.iter().any(|person| ticket.token == Some(fixtures::token(*person)))
}

pub(super) fn is_valid(ticket: &Ticket, seen: &ObservedStep<'_>) -> bool {
    is_entitled(ticket, seen) && ticket.expires_at > seen.step.moment.now
}
