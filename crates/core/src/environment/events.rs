//! Builds the events about environments, sessions and tickets.

use super::fence::Fence;
use super::lock::Lock;
use super::state::{Session, Ticket};
use crate::event::{EventKind, EventSubject, NewEvent};

fn event_about(kind: EventKind, lock: &Lock) -> NewEvent {
    let environment = &lock.environment;
    NewEvent::new(kind, EventSubject::new("environment", environment.id, Some(environment.name.as_str())))
        .with_subject(EventSubject::new("pipeline", environment.pipeline, None))
}

pub(super) fn environment_event(kind: EventKind, lock: &Lock) -> NewEvent {
    event_about(kind, lock).with("fence", lock.environment.fence.number())
}

pub(super) fn session_event(kind: EventKind, lock: &Lock, session: &Session) -> NewEvent {
    event_about(kind, lock)
        .with("sessionId", session.id.to_string())
        .with("fence", session.fence.number())
        .with("holder", session.holder.name.clone())
        .with("holderId", session.holder.id.to_string())
}

pub(super) fn session_opened_event(lock: &Lock, opened: &Session, previous: Fence) -> NewEvent {
    session_event(EventKind::SessionClaimed, lock, opened)
        .with("previousFence", previous.number())
        .with_some("commitId", opened.commit.as_ref())
        .with_some("context", opened.context.as_ref())
        .with_some("contact", opened.contact.as_ref())
        .with_some("expiresAt", opened.expires_at)
}

/// Takes the fence from the ended session, because the environment may already have the fence of the next one.
pub(super) fn session_ended_event(kind: EventKind, lock: &Lock, ended: &Session) -> NewEvent {
    let event = session_event(kind, lock, ended);
    match &ended.end {
        None => event,
        Some(end) => event
            .with("endReason", end.reason.as_str())
            .with("endedBy", end.by.name.clone())
            .with_some("reason", end.why.as_ref())
            .with_some("successorId", end.successor),
    }
}

pub(super) fn ticket_event(kind: EventKind, lock: &Lock, ticket: &Ticket) -> NewEvent {
    event_about(kind, lock)
        .with("ticketId", ticket.id.to_string())
        .with("holder", ticket.holder.name.clone())
        .with("holderId", ticket.holder.id.to_string())
        .with_some("commitId", ticket.terms.commit.as_ref())
        .with_some("contact", ticket.terms.contact.as_ref())
        .with_some("groupId", ticket.group)
        .with_some("owner", lock.environment.configuration.owner.as_ref())
}

/// A ticket that joins the queue, with the holder that it waits for and, if it announces a takeover, when and why.
pub(super) fn ticket_queued_event(lock: &Lock, ticket: &Ticket) -> NewEvent {
    let event = ticket_event(EventKind::TicketQueued, lock, ticket)
        .with("position", lock.position(ticket.id).unwrap_or_default());
    let Some(session) = &lock.session else { return event };
    let event =
        event.with("heldBy", session.holder.name.clone()).with("heldById", session.holder.id.to_string());
    match &ticket.takeover {
        None => event,
        Some(takeover) => event
            .with("takeover", if takeover.at.is_some() { "grace" } else { "after_current_deployment" })
            .with_some("takeoverAt", takeover.at)
            .with_some("reason", takeover.why.as_ref()),
    }
}
