//! The line of those who wait.

use berth_api::session as wire;
use berth_core::access::{Action, permit};
use berth_core::environment::{Lock, Ticket, queue};
use berth_core::id::TicketId;
use berth_store::Read;
use berth_store::records::ticket;

use super::view::tagged;
use super::{Place, holder, shown};
use crate::access::Authorized;
use crate::app::{Answer, App, Outcome, Ruled};
use crate::error::AppError;

impl App {
    pub async fn view_queue(
        &self,
        who: &Authorized<permit::EnvironmentsRead>,
        place: Place,
    ) -> Result<Vec<wire::Ticket>, AppError> {
        self.read(who, move |db| {
            let lock = place.find(db)?;
            Ok(lock.tickets.iter().map(|ticket| shown::ticket(ticket, &lock, db.now())).collect())
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
            let found = find(db, &lock, &id)?;
            Ok(tagged(Answer::ok(shown::ticket(&found, &lock, db.now())), &lock))
        })
        .await
    }

    /// The owner leaves the line; somebody who may take environments over can send them away.
    pub async fn leave_queue(
        &self,
        who: &Authorized<permit::EnvironmentsClaim>,
        place: Place,
        id: String,
    ) -> Result<Outcome<wire::Ticket>, AppError> {
        let (org, by) = (who.org(), holder(who.principal()));
        self.rule_in(who, None, move |change, tx, standing| {
            let lock = place.find_any(tx)?;
            let found = find(tx, &lock, &id)?;
            let may_force = standing.role.may(Action::EnvironmentsForceClaim);
            let (after, left) = change
                .decide(tx, &lock, |lock, moment| queue::leave(lock, &found, &by, may_force, moment))?;
            Ok(match left {
                Ok(left) => Ruled::Yes(tagged(Answer::ok(shown::ticket(&left, &after, tx.now())), &after)),
                Err(refusal) => Ruled::No(shown::refused(refusal, org, &after, tx.now())),
            })
        })
        .await
    }
}

fn find(db: &mut impl Read, lock: &Lock, id: &str) -> Result<Ticket, AppError> {
    let missing = || AppError::not_found("ticket");
    let id: TicketId = id.parse().map_err(|_| missing())?;
    ticket::by_id(db, id)?.filter(|found| found.environment == lock.environment.id).ok_or_else(missing)
}
