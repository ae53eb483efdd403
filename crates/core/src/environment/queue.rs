//! Removes one ticket, or all tickets of a claim for any of several environments, from the queue.

use super::draft::{DecisionContext, LockDraft};
use super::events;
use super::lock::Lock;
use super::state::{LockHolder, Ticket, TicketCause, TicketState};
use crate::decision::{CommandRefusal, DomainRecord, RecordChange, RefusableDecision, RuleDecision};
use crate::event::EventKind;
use crate::id::{TicketGroupId, TicketId};

/// Idempotent: a ticket that is no longer waiting is returned unchanged.
pub fn leave_queue(
    lock: &Lock,
    ticket: &Ticket,
    by: &LockHolder,
    may_force: bool,
    moment: &DecisionContext,
) -> RefusableDecision<Ticket> {
    let mut draft = LockDraft::begin(lock, moment);
    let is_waiting = draft.lock.position(ticket.id).is_some();
    if is_waiting && !ticket.holder.is_same(by) && !may_force {
        return draft.refuse(CommandRefusal::NotSessionHolder(ticket.holder.clone()));
    }
    let left = cancel_ticket(&mut draft, ticket.id, TicketCause::Requested);
    let answer = left.unwrap_or_else(|| draft.ticket_after(ticket));
    draft.finish(Ok(answer))
}

/// The ticket groups that a decision ends, and why: one of their tickets was granted, or its owner left the queue. The
/// caller withdraws the other tickets of the group in the same transaction. A ticket that expires, is revoked or loses
/// its environment does not end its group.
pub fn ended_groups(changes: &[RecordChange]) -> Vec<(TicketGroupId, TicketCause)> {
    let ended = changes.iter().filter_map(|RecordChange::Put(record)| {
        let DomainRecord::Ticket(ticket) = record else { return None };
        let cause = match &ticket.status {
            TicketState::Granted { .. } => TicketCause::GrantedElsewhere,
            TicketState::Cancelled { cause: TicketCause::Requested, .. } => TicketCause::Requested,
            TicketState::Waiting | TicketState::Cancelled { .. } | TicketState::Expired { .. } => {
                return None;
            }
        };
        Some((ticket.group?, cause))
    });
    ended.collect()
}

/// Removes a ticket of an ended group from its queue. Applies no timers, so no other ticket is granted.
pub fn withdraw_ticket(
    lock: &Lock,
    ticket: TicketId,
    cause: TicketCause,
    moment: &DecisionContext,
) -> RuleDecision<()> {
    let mut draft = LockDraft::from_stored(lock, moment);
    match cause {
        TicketCause::Requested => drop(cancel_ticket(&mut draft, ticket, cause)),
        _ => draft.as_system(|draft| drop(cancel_ticket(draft, ticket, cause))),
    }
    draft.finish_without_timers(())
}

fn cancel_ticket(draft: &mut LockDraft<'_>, id: TicketId, cause: TicketCause) -> Option<Ticket> {
    let left = draft.remove_ticket(id, TicketState::Cancelled { at: draft.now(), cause })?;
    let event =
        events::ticket_event(EventKind::TicketCancelled, &draft.lock, &left).with("cause", cause.as_str());
    draft.record(event);
    Some(left)
}
