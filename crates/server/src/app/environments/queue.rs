//! The queue of an environment.

use berth_api::session as wire;
use berth_core::access::{Action, permit};
use berth_core::environment::eta::SESSIONS_MAX;
use berth_core::environment::{SessionEndReason, Lock, Session, Ticket, TicketCause, TicketState, queue};
use berth_core::id::TicketId;
use berth_store::Read;
use berth_store::tables::{environment, session, ticket};

use super::view::tagged;
use super::{Place, holder, shown};
use crate::app::{Answer, App, Outcome, Ruled};
use crate::auth::authorize::Authorized;
use crate::error::AppError;

impl App {
    pub async fn view_queue(
        &self,
        who: &Authorized<permit::EnvironmentsRead>,
        place: Place,
    ) -> Result<Vec<wire::Ticket>, AppError> {
        self.read(who, move |db| {
            let lock = place.find(db)?;
            let lengths = lengths(db, &lock)?;
            Ok(lock.tickets.iter().map(|ticket| shown::ticket(ticket, &lock, &lengths, db.now())).collect())
        })
        .await
    }

    pub async fn view_ticket(
        &self,
        who: &Authorized<permit::EnvironmentsRead>,
        place: Place,
        id: String,
    ) -> Result<Answer<wire::Ticket>, AppError> {
        self.read(who, move |db| {
            let lock = place.find_any(db)?;
            let (lock, found) = find(db, lock, &id)?;
            answer(db, &found, &lock)
        })
        .await
    }

    /// Cancels a ticket. Allowed for its owner and for callers who may force-claim. Cancelling a ticket of a claim-any
    /// cancels its whole group.
    pub async fn leave_queue(
        &self,
        who: &Authorized<permit::EnvironmentsClaim>,
        place: Place,
        id: String,
    ) -> Result<Outcome<wire::Ticket>, AppError> {
        let (org, by) = (who.org(), holder(who.principal()));
        self.rule_in(who, None, move |change, tx, standing| {
            let lock = place.find_any(tx)?;
            let (lock, found) = find(tx, lock, &id)?;
            let may_force = standing.role.may(Action::EnvironmentsForceClaim);
            let (after, left) = change
                .decide(tx, &lock, |lock, moment| queue::leave_queue(lock, &found, &by, may_force, moment))?;
            match left {
                Ok(left) => answer(tx, &left, &after).map(Ruled::Yes),
                Err(refusal) => Ok(Ruled::No(shown::refused(refusal, org, &after, tx.now()))),
            }
        })
        .await
    }
}

fn answer(db: &mut impl Read, ticket: &Ticket, lock: &Lock) -> Result<Answer<wire::Ticket>, AppError> {
    let body = shown::ticket(ticket, lock, &lengths(db, lock)?, db.now());
    Ok(tagged_as(Answer::ok(body), ticket, lock))
}

/// Sets the `ETag` of a ticket. The response may show another ticket of the group, in another queue, so the tag
/// contains the ticket id to keep them distinct.
pub(super) fn tagged_as<T>(answer: Answer<T>, ticket: &Ticket, lock: &Lock) -> Answer<T> {
    let answer = tagged(answer, lock);
    match ticket.group {
        Some(_) => answer.varying_by(format!("{}.{}", lock.environment.version, ticket.id)),
        None => answer,
    }
}

/// Durations of recent sessions in seconds, for estimates. Not loaded if no ticket is waiting.
pub(super) fn lengths(db: &mut impl Read, lock: &Lock) -> Result<Vec<i64>, AppError> {
    if lock.tickets.is_empty() {
        return Ok(Vec::new());
    }
    let environment = &lock.environment;
    let sessions = session::list_before(db, environment.id, environment.sessions, SESSIONS_MAX)?;
    let length = |session: &Session| {
        let end = session.end.as_ref().filter(|end| end.reason != SessionEndReason::Restored)?;
        Some(end.at.seconds_since(session.claimed_at).max(0))
    };
    Ok(sessions.iter().filter_map(length).collect())
}

/// Finds a ticket of an environment. If another ticket of its group was granted, returns that one with its environment,
/// so that polling any ticket of a claim-any shows what was claimed.
fn find(db: &mut impl Read, lock: Lock, id: &str) -> Result<(Lock, Ticket), AppError> {
    let missing = || AppError::not_found("ticket");
    let id: TicketId = id.parse().map_err(|_| missing())?;
    let found = ticket::by_id(db, id)?.filter(|found| found.environment == lock.environment.id);
    let found = found.ok_or_else(missing)?;
    let is_elsewhere =
        matches!(found.status, TicketState::Cancelled { cause: TicketCause::GrantedElsewhere, .. });
    let Some(group) = found.group.filter(|_| is_elsewhere) else { return Ok((lock, found)) };
    let is_granted = |ticket: &Ticket| matches!(ticket.status, TicketState::Granted { .. });
    let Some(granted) = ticket::of_group(db, group)?.into_iter().find(is_granted) else {
        return Ok((lock, found));
    };
    let lock = environment::by_id(db, granted.environment)?;
    Ok((lock.ok_or_else(|| AppError::bug("a ticket without an environment"))?, granted))
}
