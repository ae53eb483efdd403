//! Tickets: entries in the queue of an environment.

use berth_core::access::{Action, Role};
use berth_core::environment::order::sort_tickets;
use berth_core::environment::{ClaimTerms, Environment, PendingTakeover, Ticket, TicketCause, TicketState};
use berth_core::id::{EnvironmentId, TicketGroupId, TicketId};
use berth_core::time::Timestamp;

use super::{grant, provider_identity, second_factor};
use crate::error::StoreError;
use crate::sql::value::{SqlValue, text};
use crate::sql::{
    FromRow, RowReader, SqlStatement, SqlText, TableRow as _, ToParams, column_group, sql, statements, table,
    word_columns,
};
use crate::tx::{StoreRead, Tx};

/// Maximum number of tickets from which insights are computed.
pub const INSIGHT_ROWS_MAX: i64 = 10_000;

table!(Org Ticket in tickets {
    key: [environment: environment_id, number],
    update: [status: (status, ended_at, cause, session_id, deployment_id)],
    derived: [user_id = |it| it.holder.id],
    insert: [
        id, holder, token: token_id, terms: (commit_id, context, contact, ttl_seconds, lease_seconds, deploy, is_untrusted),
        created_at,
        expires_at, takeover: (takeover_target, takeover_at, takeover_why), group: group_id,
    ],
    unset: [is_entitled],
});
column_group!(ClaimTerms { commit, context, contact, ttl_seconds, lease_seconds, deploy, is_untrusted });
word_columns!(Role: Role::ALL, TicketCause: [
    TicketCause::Requested, TicketCause::Revoked, TicketCause::Restored, TicketCause::GrantedElsewhere,
    TicketCause::EnvironmentDeleted, TicketCause::AgentsStopped,
]);

/// The role of the ticket's owner, when the owner's token was revoked, and when it expires.
type OwnerAccess = (Option<Role>, Option<Timestamp>, Option<Timestamp>);

const fn select(condition: &str) -> SqlText {
    let text = sql("SELECT ").columns(&Ticket::TABLE, "t").then(
        ", m.role, k.revoked_at, k.expires_at
        FROM tickets t LEFT JOIN memberships m ON m.org_id = t.org_id AND m.user_id = t.user_id
        LEFT JOIN api_tokens k ON k.org_id = t.org_id AND k.id = t.token_id
        WHERE t.org_id = $1 AND ",
    );
    text.then(condition)
}

statements! {
    Org Read WAITING => select("t.environment_id = $2 AND t.status = 'waiting' ORDER BY t.number");
    Org Read BY_ID => select("t.id = $2");
    Org Read OF_GROUP => select("t.group_id = $2 ORDER BY t.id");
    Org Read OF_ENVIRONMENT => Ticket::TABLE.select(
        "WHERE org_id = $1 AND environment_id = $2 ORDER BY number DESC LIMIT $3");
    // Does not change a ticket that is no longer waiting. The commit of a waiting ticket can change.
    Org Write PUT => Ticket::TABLE.upsert(", commit_id = excluded.commit_id WHERE tickets.status = 'waiting' AND tickets.id = excluded.id");
}

/// Columns: status, ended_at, cause, session_id, deployment_id.
impl FromRow for TicketState {
    fn from_row(row: &mut RowReader) -> Result<Self, StoreError> {
        let status: String = row.take()?;
        if status == "waiting" {
            row.skip(4);
            return Ok(TicketState::Waiting);
        }
        let (at, cause): (Timestamp, Option<TicketCause>) = row.take()?;
        let (session, deployment) = row.take()?;
        Ok(match (status.as_str(), session, cause) {
            ("granted", Some(session), _) => TicketState::Granted { at, session, deployment },
            ("cancelled", _, Some(cause)) => TicketState::Cancelled { at, cause },
            ("expired", ..) => TicketState::Expired { at },
            _ => return Err(StoreError::Bug(format!("a ticket is not {status} as its columns say"))),
        })
    }
}

impl ToParams for TicketState {
    fn to_params(&self, params: &mut Vec<SqlValue>) -> Result<(), StoreError> {
        let (ended_at, cause, session, deployment) = match self {
            TicketState::Waiting => (None, None, None, None),
            TicketState::Granted { at, session, deployment } => (Some(at), None, Some(session), *deployment),
            TicketState::Cancelled { at, cause } => (Some(at), Some(*cause), None, None),
            TicketState::Expired { at } => (Some(at), None, None, None),
        };
        (self.as_str(), ended_at, cause, session, deployment).to_params(params)
    }
}

impl FromRow for Option<PendingTakeover> {
    fn from_row(row: &mut RowReader) -> Result<Self, StoreError> {
        let (target, at, why): (Option<_>, _, _) = row.take()?;
        Ok(target.map(|target| PendingTakeover { target, at, why }))
    }
}

impl ToParams for Option<PendingTakeover> {
    fn to_params(&self, params: &mut Vec<SqlValue>) -> Result<(), StoreError> {
        let takeover = self.as_ref();
        let why = takeover.and_then(|it| it.why.as_ref());
        (takeover.map(|it| it.target), takeover.and_then(|it| it.at), why).to_params(params)
    }
}

/// Fetches tickets and determines whether their owners may still claim. Memberships and tokens can change while a
/// ticket waits.
fn fetch_entitled(
    db: &mut impl StoreRead,
    statement: &SqlStatement,
    params: &[SqlValue],
) -> Result<Vec<Ticket>, StoreError> {
    let now = db.now();
    let rows: Vec<(Ticket, OwnerAccess)> = db.fetch_all(statement, params)?;
    let is_factor_required = !rows.is_empty() && second_factor::is_required(db)?;
    let tickets = rows.into_iter().map(|(ticket, (role, revoked_at, expires_at))| {
        let may_claim = match role {
            None => false,
            Some(role) if role.may(Action::EnvironmentsClaim) => true,
            Some(role) => grant::allows_claim(db, ticket.holder.id, role, ticket.environment)?,
        };
        let has_token = revoked_at.is_none() && expires_at.is_none_or(|end| end > now);
        let lacks_factor = is_factor_required && second_factor::is_missing(db, ticket.holder.id)?;
        let is_suspended = provider_identity::is_suspended(db, ticket.holder.id)?;
        Ok(Ticket { is_entitled: may_claim && has_token && !lacks_factor && !is_suspended, ..ticket })
    });
    tickets.collect()
}

/// Waiting tickets in the order in which they would be granted now.
pub(crate) fn list_waiting(
    db: &mut impl StoreRead,
    environment: &Environment,
) -> Result<Vec<Ticket>, StoreError> {
    let mut tickets = fetch_entitled(db, &WAITING, &[text(environment.id)])?;
    sort_tickets(&mut tickets, &environment.configuration.queue, db.now());
    Ok(tickets)
}

pub fn by_id(db: &mut impl StoreRead, id: TicketId) -> Result<Option<Ticket>, StoreError> {
    Ok(fetch_entitled(db, &BY_ID, &[text(id)])?.pop())
}

/// All tickets that one claim-any request created, including those that are no longer waiting.
pub fn list_of_group(db: &mut impl StoreRead, group: TicketGroupId) -> Result<Vec<Ticket>, StoreError> {
    fetch_entitled(db, &OF_GROUP, &[text(group)])
}

/// All tickets of an environment, newest first. Does not determine whether their owners may still claim.
pub fn list_of_environment(
    db: &mut impl StoreRead,
    environment: EnvironmentId,
) -> Result<Vec<Ticket>, StoreError> {
    db.fetch_all(&OF_ENVIRONMENT, &[text(environment), INSIGHT_ROWS_MAX.into()])
}

pub(crate) fn put(tx: &mut Tx<'_>, ticket: &Ticket) -> Result<(), StoreError> {
    tx.put(&PUT, ticket)
}
