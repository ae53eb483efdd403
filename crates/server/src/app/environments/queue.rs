//! The queue of an environment.

use berth_api::session as wire;
use berth_core::access::{Action, permit};
use berth_core::environment::{Lock, Ticket, TicketCause, TicketState, queue};
use berth_core::id::TicketId;
use berth_engine::claim_any::session_lengths;
use berth_store::StoreRead;
use berth_store::tables::{environment, ticket};

use super::view::with_environment_tag;
use super::{EnvironmentPath, holder, response};
use crate::app::resource_access::may_on_environment;
use crate::app::{ApiResponse, App, IdempotentResponse, RuleOutcome};
use crate::auth::authorize::AuthorizedCaller;
use crate::error::AppError;

impl App {
    pub async fn view_queue(
        &self,
        who: &AuthorizedCaller<permit::EnvironmentsRead>,
        place: EnvironmentPath,
    ) -> Result<Vec<wire::WireTicket>, AppError> {
        let access = who.access().clone();
        self.read(who, move |db| {
            let lock = place.find(db, &access, Action::EnvironmentsRead)?;
            let lengths = session_lengths(db, &lock)?;
            Ok(lock
                .tickets
                .iter()
                .map(|ticket| response::ticket_to_wire(ticket, &lock, &lengths, db.now()))
                .collect())
        })
        .await
    }

    pub async fn view_ticket(
        &self,
        who: &AuthorizedCaller<permit::EnvironmentsRead>,
        place: EnvironmentPath,
        id: String,
    ) -> Result<ApiResponse<wire::WireTicket>, AppError> {
        let access = who.access().clone();
        self.read(who, move |db| {
            let lock = place.find_any(db, &access, Action::EnvironmentsRead)?;
            let (lock, found) = find(db, lock, &id)?;
            build_response(db, &found, &lock)
        })
        .await
    }

    /// Cancels a ticket. Allowed for the ticket's owner and for callers who may release sessions of others. If the ticket belongs to a
    /// claim of any environment, all tickets of that claim are cancelled.
    pub async fn leave_queue(
        &self,
        who: &AuthorizedCaller<permit::EnvironmentsClaim>,
        place: EnvironmentPath,
        id: String,
    ) -> Result<IdempotentResponse<wire::WireTicket>, AppError> {
        let (org, by) = (who.org(), holder(who.principal()));
        let reads = place.reads(who.principal());
        self.run_environment_rule(who, None, reads, move |change, tx, standing| {
            let lock = place.find_any(tx, &standing.access, Action::EnvironmentsClaim)?;
            let (lock, found) = find(tx, lock, &id)?;
            let others = Action::EnvironmentsReleaseOthers;
            let may_force = may_on_environment(tx, &standing.access, others, &lock.environment)?;
            let (after, left) = change
                .decide(tx, &lock, |lock, moment| queue::leave_queue(lock, &found, &by, may_force, moment))?;
            match left {
                Ok(left) => build_response(tx, &left, &after).map(RuleOutcome::Yes),
                Err(refusal) => Ok(RuleOutcome::No(response::refusal_error(refusal, org, &after, tx.now()))),
            }
        })
        .await
    }
}

fn build_response(
    db: &mut impl StoreRead,
    ticket: &Ticket,
    lock: &Lock,
) -> Result<ApiResponse<wire::WireTicket>, AppError> {
    let body = response::ticket_to_wire(ticket, lock, &session_lengths(db, lock)?, db.now());
    Ok(with_ticket_tag(ApiResponse::ok(body), ticket, lock))
}

/// Sets the `ETag` of a ticket. The response may show another ticket of the same group in another queue, so the tag
/// includes the ticket id to distinguish them.
pub(super) fn with_ticket_tag<T>(answer: ApiResponse<T>, ticket: &Ticket, lock: &Lock) -> ApiResponse<T> {
    let answer = with_environment_tag(answer, lock);
    match ticket.group {
        Some(_) => answer.with_variant(format!("{}.{}", lock.environment.version, ticket.id)),
        None => answer,
    }
}

/// Finds a ticket of an environment, or the granted ticket of its group.
fn find(db: &mut impl StoreRead, lock: Lock, id: &str) -> Result<(Lock, Ticket), AppError> {
    let missing = || AppError::not_found("ticket");
    let id: TicketId = id.parse().map_err(|_| missing())?;
    let found = ticket::by_id(db, id)?.filter(|found| found.environment == lock.environment.id);
    find_granted(db, lock, found.ok_or_else(missing)?)
}

/// If another ticket of this ticket's group was granted, returns the granted ticket and its environment, so that a
/// client that polls any ticket of the group learns what was claimed.
pub(super) fn find_granted(
    db: &mut impl StoreRead,
    lock: Lock,
    found: Ticket,
) -> Result<(Lock, Ticket), AppError> {
    let is_elsewhere =
        matches!(found.status, TicketState::Cancelled { cause: TicketCause::GrantedElsewhere, .. });
    let Some(group) = found.group.filter(|_| is_elsewhere) else { return Ok((lock, found)) };
    let is_granted = |ticket: &Ticket| matches!(ticket.status, TicketState::Granted { .. });
    let Some(granted) = ticket::list_of_group(db, group)?.into_iter().find(is_granted) else {
        return Ok((lock, found));
    };
    let lock = environment::by_id(db, granted.environment)?;
    Ok((lock.ok_or_else(|| AppError::bug("a ticket without an environment"))?, granted))
}
