//! Tickets: places in line.

use berth_core::access::{Action, Role};
use berth_core::environment::{Takeover, Ticket, TicketCause, TicketStatus, Wish};
use berth_core::id::{EnvironmentId, TicketGroupId, TicketId};
use berth_core::time::Timestamp;

use crate::error::StoreError;
use crate::sql::statements;
use crate::tx::{Read, Tx};
use crate::value::{Row, text, to_json};

statements! {
    // Whether its owner may still claim is asked anew whenever the line is looked at.
    Org Read WAITING = "SELECT t.id, t.environment_id, t.number, t.holder, t.token_id, t.commit_id, t.context,
          t.ttl_seconds, t.deploy, t.created_at, t.expires_at, t.takeover_target, t.takeover_at, t.takeover_why,
          t.status, t.ended_at, t.cause, t.session_id, t.deployment_id, m.role, k.revoked_at, k.expires_at, t.group_id
        FROM tickets t LEFT JOIN memberships m ON m.org_id = t.org_id AND m.user_id = t.user_id
        LEFT JOIN api_tokens k ON k.org_id = t.org_id AND k.id = t.token_id
        WHERE t.org_id = $1 AND t.environment_id = $2 AND t.status = 'waiting' ORDER BY t.number";
    Org Read BY_ID = "SELECT t.id, t.environment_id, t.number, t.holder, t.token_id, t.commit_id, t.context,
          t.ttl_seconds, t.deploy, t.created_at, t.expires_at, t.takeover_target, t.takeover_at, t.takeover_why,
          t.status, t.ended_at, t.cause, t.session_id, t.deployment_id, m.role, k.revoked_at, k.expires_at, t.group_id
        FROM tickets t LEFT JOIN memberships m ON m.org_id = t.org_id AND m.user_id = t.user_id
        LEFT JOIN api_tokens k ON k.org_id = t.org_id AND k.id = t.token_id
        WHERE t.org_id = $1 AND t.id = $2";
    Org Read OF_GROUP = "SELECT t.id, t.environment_id, t.number, t.holder, t.token_id, t.commit_id, t.context,
          t.ttl_seconds, t.deploy, t.created_at, t.expires_at, t.takeover_target, t.takeover_at, t.takeover_why,
          t.status, t.ended_at, t.cause, t.session_id, t.deployment_id, m.role, k.revoked_at, k.expires_at, t.group_id
        FROM tickets t LEFT JOIN memberships m ON m.org_id = t.org_id AND m.user_id = t.user_id
        LEFT JOIN api_tokens k ON k.org_id = t.org_id AND k.id = t.token_id
        WHERE t.org_id = $1 AND t.group_id = $2 ORDER BY t.id";
    // What no longer waits stays as it is.
    Org Write PUT = "INSERT INTO tickets (org_id, id, environment_id, number, holder, user_id, token_id, commit_id,
          context, ttl_seconds, deploy, created_at, expires_at, takeover_target, takeover_at, takeover_why, status,
          ended_at, cause, session_id, deployment_id, group_id)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22)
        ON CONFLICT (org_id, environment_id, number) DO UPDATE SET status = excluded.status,
          ended_at = excluded.ended_at, cause = excluded.cause, session_id = excluded.session_id,
          deployment_id = excluded.deployment_id
        WHERE tickets.status = 'waiting' AND tickets.id = excluded.id";
}

pub(crate) fn read(row: &Row, now: Timestamp) -> Result<Ticket, StoreError> {
    let status = match row.text(14)? {
        "waiting" => TicketStatus::Waiting,
        "granted" => TicketStatus::Granted {
            at: row.time(15)?,
            session: row.parse(17)?,
            deployment: row.maybe(18, Row::parse)?,
        },
        "cancelled" => TicketStatus::Cancelled { at: row.time(15)?, cause: cause(row.text(16)?) },
        _ => TicketStatus::Expired { at: row.time(15)? },
    };
    let takeover = match row.maybe(11, Row::parse)? {
        None => None,
        Some(target) => {
            Some(Takeover { target, at: row.maybe(12, Row::time)?, why: row.maybe(13, Row::name)? })
        }
    };
    let may_claim =
        row.maybe(19, Row::parse::<Role>)?.is_some_and(|role| role.may(Action::EnvironmentsClaim));
    let has_token =
        row.maybe(20, Row::time)?.is_none() && row.maybe(21, Row::time)?.is_none_or(|end| end > now);
    Ok(Ticket {
        id: row.parse(0)?,
        environment: row.parse(1)?,
        number: row.int(2)?,
        holder: row.json(3)?,
        token: row.maybe(4, Row::parse)?,
        wish: Wish {
            commit: row.maybe(5, Row::name)?,
            context: row.maybe(6, Row::name)?,
            ttl_seconds: row.maybe(7, Row::int)?,
            deploy: row.int(8)? == 1,
        },
        created_at: row.time(9)?,
        expires_at: row.time(10)?,
        takeover,
        group: row.maybe(22, Row::parse)?,
        is_entitled: may_claim && has_token,
        status,
    })
}

fn cause(word: &str) -> TicketCause {
    match word {
        "requested" => TicketCause::Requested,
        "revoked" => TicketCause::Revoked,
        "restored" => TicketCause::Restored,
        "granted_elsewhere" => TicketCause::GrantedElsewhere,
        _ => TicketCause::EnvironmentDeleted,
    }
}

/// In the order in which they will be granted: takeovers first, then by arrival.
pub(crate) fn waiting_for(db: &mut impl Read, environment: EnvironmentId) -> Result<Vec<Ticket>, StoreError> {
    let now = db.now();
    let rows = db.rows(&WAITING, &[text(environment)])?;
    let mut tickets = rows.iter().map(|row| read(row, now)).collect::<Result<Vec<_>, _>>()?;
    tickets.sort_by_key(|ticket| (ticket.takeover.is_none(), ticket.number));
    Ok(tickets)
}

pub fn by_id(db: &mut impl Read, id: TicketId) -> Result<Option<Ticket>, StoreError> {
    let now = db.now();
    db.row(&BY_ID, &[text(id)])?.map(|row| read(&row, now)).transpose()
}

/// The tickets of one claim-any, also those that no longer wait.
pub fn of_group(db: &mut impl Read, group: TicketGroupId) -> Result<Vec<Ticket>, StoreError> {
    let now = db.now();
    db.rows(&OF_GROUP, &[text(group)])?.iter().map(|row| read(row, now)).collect()
}

pub(crate) fn put(tx: &mut Tx<'_>, it: &Ticket) -> Result<(), StoreError> {
    let (ended_at, cause, session, deployment) = match &it.status {
        TicketStatus::Waiting => (None, None, None, None),
        TicketStatus::Granted { at, session, deployment } => (Some(*at), None, Some(*session), *deployment),
        TicketStatus::Cancelled { at, cause } => (Some(*at), Some(cause.as_str()), None, None),
        TicketStatus::Expired { at } => (Some(*at), None, None, None),
    };
    let takeover = it.takeover.as_ref();
    let params = [
        text(it.id),
        text(it.environment),
        it.number.into(),
        to_json(&it.holder)?.into(),
        text(it.holder.id),
        it.token.map(text).into(),
        it.wish.commit.as_ref().map(text).into(),
        it.wish.context.as_ref().map(text).into(),
        it.wish.ttl_seconds.into(),
        it.wish.deploy.into(),
        it.created_at.into(),
        it.expires_at.into(),
        takeover.map(|it| text(it.target)).into(),
        takeover.and_then(|it| it.at).into(),
        takeover.and_then(|it| it.why.as_ref()).map(text).into(),
        it.status.as_str().into(),
        ended_at.into(),
        cause.into(),
        session.map(text).into(),
        deployment.map(text).into(),
        it.group.map(text).into(),
    ];
    tx.execute_one(&PUT, &params)
}
