//! Applies expired timers: sessions and tickets expire, pending takeovers happen, and the next ticket is granted.

use super::draft::{DecisionContext, LockDraft};
use super::events;
use super::limits::WARNING_S_MAX;
use super::lock::Lock;
use super::order::next_ticket;
use super::state::{Session, SessionEndReason, Ticket, TicketCause, TicketState};
use super::transitions::SessionEnding;
use crate::decision::RuleDecision;
use crate::event::{Actor, EventKind};
use crate::id::SessionId;
use crate::time::Timestamp;

/// Applies expired timers without a command; called by the periodic sweep. Changes nothing if no timer has expired.
pub fn settle(lock: &Lock, moment: &DecisionContext) -> RuleDecision<()> {
    LockDraft::begin(lock, moment).finish(())
}

pub(super) fn apply_timers(draft: &mut LockDraft<'_>) {
    draft.as_system(|draft| {
        drop_dead_tickets(draft);
        end_overdue_session(draft);
        take_over_when_due(draft);
        grant_next(draft);
    });
}

/// Appends the warning that the session will expire soon. Called last, so that no warning is sent for a session that
/// this decision has just extended.
pub(super) fn announce_expiry(draft: &mut LockDraft<'_>) {
    draft.as_system(record_expiry_warning);
}

/// When the active session will reach its expiry time or idle timeout, whichever comes first, and which of them it is.
/// Leaves out the lease, which the holder keeps renewing.
pub fn ends_at(lock: &Lock) -> Option<(Timestamp, SessionEndReason)> {
    let session = lock.session.as_ref()?;
    let expiry = session.expires_at.map(|at| (at, SessionEndReason::Expired));
    let idle = session.idle_seconds.filter(|_| !lock.is_busy());
    let idle = idle.map(|seconds| (session.active_at.plus_seconds(seconds), SessionEndReason::Idle));
    [expiry, idle].into_iter().flatten().min_by_key(|(at, _)| *at)
}

/// Like [`ends_at`], unless the session's lease ends first.
fn next_end(lock: &Lock) -> Option<(Timestamp, SessionEndReason)> {
    let lease = lock.session.as_ref()?.lease_expires_at.map(|at| (at, SessionEndReason::Lease));
    [ends_at(lock), lease].into_iter().flatten().min_by_key(|(at, _)| *at)
}

/// When the next timer expires.
pub fn due_at(lock: &Lock) -> Option<Timestamp> {
    let end = next_end(lock).map(|(at, _)| at);
    let warning = lock.session.as_ref().and_then(|session| warns_at(lock, session));
    let takeover = lock.pending_takeover().and_then(|(_, takeover)| takeover.at);
    let tickets = lock.tickets.iter().map(|ticket| ticket.expires_at);
    [end, warning, takeover].into_iter().flatten().chain(tickets).min()
}

/// When the expiry warning is due; `None` if it was already sent.
fn warns_at(lock: &Lock, session: &Session) -> Option<Timestamp> {
    let (at, reason) = ends_at(lock)?;
    let length = match reason {
        SessionEndReason::Idle => session.idle_seconds,
        _ => session.ttl_seconds,
    };
    let lead = length.map_or(WARNING_S_MAX, |seconds| WARNING_S_MAX.min(seconds / 5));
    (session.warned_of != Some(at)).then(|| at.plus_seconds(-lead))
}

fn drop_dead_tickets(draft: &mut LockDraft<'_>) {
    let now = draft.now();
    let dead = |ticket: &Ticket| {
        if !ticket.is_entitled {
            Some(TicketState::Cancelled { at: now, cause: TicketCause::Revoked })
        } else {
            (ticket.expires_at <= now).then_some(TicketState::Expired { at: now })
        }
    };
    let dead: Vec<_> = draft
        .lock
        .tickets
        .iter()
        .filter_map(|ticket| dead(ticket).map(|status| (ticket.id, status)))
        .collect();
    for (id, status) in dead {
        let kind = match status {
            TicketState::Expired { .. } => EventKind::TicketExpired,
            _ => EventKind::TicketCancelled,
        };
        if let Some(ticket) = draft.remove_ticket(id, status) {
            let event = events::ticket_event(kind, &draft.lock, &ticket);
            draft.record(event);
        }
    }
}

fn end_overdue_session(draft: &mut LockDraft<'_>) {
    let now = draft.now();
    let Some((_, reason)) = next_end(&draft.lock).filter(|(at, _)| *at <= now) else { return };
    let ended = draft.end_session(SessionEnding { reason, by: Actor::system(), why: None, successor: None });
    if let Some(session) = ended {
        let event = events::session_ended_event(EventKind::SessionExpired, &draft.lock, &session);
        draft.record(event);
    }
    after_end(draft);
}

/// Called after a session ends, except by a takeover: plans the reset, then grants the next ticket.
pub(super) fn after_end(draft: &mut LockDraft<'_>) {
    draft.plan_reset();
    grant_next(draft);
}

fn take_over_when_due(draft: &mut LockDraft<'_>) {
    let Some((ticket, takeover)) = draft.lock.pending_takeover() else { return };
    let is_due = match takeover.at {
        Some(at) => at <= draft.now(),
        None => !draft.lock.is_deploying(),
    };
    if !is_due {
        return;
    }
    let (ticket, why) = (ticket.clone(), takeover.why.clone());
    let (by, reason, successor) =
        (ticket.holder.actor(), SessionEndReason::Overridden, draft.new_session_id());
    let ended = draft.end_session(SessionEnding { reason, by, why, successor: Some(successor) });
    if let Some(session) = ended {
        let event = events::session_ended_event(EventKind::SessionOverridden, &draft.lock, &session);
        draft.record(event);
    }
    grant(draft, successor, &ticket);
}

/// Grants the next ticket in the same decision that freed the environment, so that a new claim cannot overtake the
/// queue.
fn grant_next(draft: &mut LockDraft<'_>) {
    if draft.lock.session.is_some() || !draft.lock.environment.is_declared {
        return;
    }
    let policy = &draft.lock.environment.configuration.queue;
    let next = next_ticket(&draft.lock.tickets, policy, draft.now());
    let next = draft.lock.tickets.iter().find(|ticket| Some(ticket.id) == next);
    if let Some(ticket) = next.cloned() {
        let id = draft.new_session_id();
        grant(draft, id, &ticket);
    }
}

fn grant(draft: &mut LockDraft<'_>, session: SessionId, ticket: &Ticket) {
    let deployment = draft.grant_session(session, &ticket.holder, &ticket.terms);
    let status = TicketState::Granted { at: draft.now(), session, deployment };
    if let Some(ticket) = draft.remove_ticket(ticket.id, status) {
        let event = events::ticket_event(EventKind::TicketGranted, &draft.lock, &ticket)
            .with("sessionId", session.to_string())
            .with_some("deploymentId", deployment);
        draft.record(event);
    }
}

fn record_expiry_warning(draft: &mut LockDraft<'_>) {
    let now = draft.now();
    let Some(session) = &draft.lock.session else { return };
    let (Some((end, reason)), Some(at)) = (ends_at(&draft.lock), warns_at(&draft.lock, session)) else {
        return;
    };
    if at > now {
        return;
    }
    let event = events::session_event(EventKind::SessionExpiring, &draft.lock, session)
        .with("expiresAt", end.to_string())
        .with("endReason", reason.as_str());
    if let Some(session) = &mut draft.lock.session {
        session.warned_of = Some(end);
    }
    draft.record(event);
}
