//! Leaves the queue with one ticket, or with all tickets of a claim-any group.

use super::draft::{Draft, Moment};
use super::lock::Lock;
use super::state::{Holder, Ticket, TicketCause, TicketStatus};
use super::telling;
use crate::decision::{Change, Decision, Record, Refusal, Ruling};
use crate::event::EventKind;
use crate::id::{TicketGroupId, TicketId};

/// Idempotent: a ticket that is no longer waiting is returned unchanged.
pub fn leave(lock: &Lock, ticket: &Ticket, by: &Holder, may_force: bool, moment: &Moment) -> Ruling<Ticket> {
    let mut draft = Draft::begin(lock, moment);
    let is_waiting = draft.lock.position(ticket.id).is_some();
    if is_waiting && ticket.holder.id != by.id && !may_force {
        return draft.refuse(Refusal::NotSessionHolder(ticket.holder.clone()));
    }
    let left = cancel(&mut draft, ticket.id, TicketCause::Requested);
    let answer = left.unwrap_or_else(|| draft.as_left(ticket));
    draft.finish(Ok(answer))
}

/// The groups that a decision ends, and why: one of their tickets was granted, or the owner left. The caller withdraws
/// the other tickets in the same transaction. Expired and revoked tickets end alone, and deleting an environment leaves
/// the rest of the group waiting.
pub fn ended_groups(changes: &[Change]) -> Vec<(TicketGroupId, TicketCause)> {
    let ended = changes.iter().filter_map(|Change::Put(record)| {
        let Record::Ticket(ticket) = record else { return None };
        let cause = match &ticket.status {
            TicketStatus::Granted { .. } => TicketCause::GrantedElsewhere,
            TicketStatus::Cancelled { cause: TicketCause::Requested, .. } => TicketCause::Requested,
            TicketStatus::Waiting | TicketStatus::Cancelled { .. } | TicketStatus::Expired { .. } => {
                return None;
            }
        };
        Some((ticket.group?, cause))
    });
    ended.collect()
}

/// Removes a ticket of an ended group from its queue. Grants nothing: the environment stays held.
pub fn withdraw(lock: &Lock, ticket: TicketId, cause: TicketCause, moment: &Moment) -> Decision<()> {
    let mut draft = Draft::of(lock, moment);
    match cause {
        TicketCause::Requested => drop(cancel(&mut draft, ticket, cause)),
        _ => draft.as_system(|draft| drop(cancel(draft, ticket, cause))),
    }
    draft.close(())
}

fn cancel(draft: &mut Draft<'_>, id: TicketId, cause: TicketCause) -> Option<Ticket> {
    let left = draft.leave(id, TicketStatus::Cancelled { at: draft.now(), cause })?;
    let event = telling::ticket(EventKind::TicketCancelled, &draft.lock, &left).with("cause", cause.as_str());
    draft.record(event);
    Some(left)
}
