//! Leaving the queue: one ticket, or all tickets of a claim-any.

use super::draft::{Draft, Moment};
use super::lock::Lock;
use super::state::{Holder, Ticket, TicketCause, TicketStatus};
use super::telling;
use crate::decision::{Change, Decision, Record, Refusal, Ruling};
use crate::event::EventKind;
use crate::id::{TicketGroupId, TicketId};

/// `ticket` as it was loaded; one that no longer waits is answered as it is.
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

/// Groups that a decision ends, and why their other tickets leave: one was granted, or its owner left. Each of the others is
/// to be withdrawn in the same transaction. Tickets that expire or are revoked end by themselves, and an environment that
/// is deleted leaves the rest of the group waiting.
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

/// Takes a ticket of an ended group out of its queue. The environment is held, and stays so: nothing is granted on the way,
/// least of all to the group that has just got another one.
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
