//! Leaving the line.

use super::draft::{Draft, Moment};
use super::lock::Lock;
use super::state::{Holder, Ticket, TicketCause, TicketStatus};
use super::telling;
use crate::decision::{Refusal, Ruling};
use crate::event::EventKind;

/// `ticket` as it was loaded; one that no longer waits is answered as it is.
pub fn leave(lock: &Lock, ticket: &Ticket, by: &Holder, may_force: bool, moment: &Moment) -> Ruling<Ticket> {
    let mut draft = Draft::begin(lock, moment);
    let is_waiting = draft.lock.position(ticket.id).is_some();
    if is_waiting && ticket.holder.id != by.id && !may_force {
        return draft.refuse(Refusal::NotSessionHolder(ticket.holder.clone()));
    }
    let status = TicketStatus::Cancelled { at: draft.now(), cause: TicketCause::Requested };
    let left = draft.leave(ticket.id, status);
    if let Some(left) = &left {
        let event = telling::ticket(EventKind::TicketCancelled, &draft.lock, left);
        draft.record(event);
    }
    let answer = left.unwrap_or_else(|| draft.as_left(ticket));
    draft.finish(Ok(answer))
}
