//! Sessions of environments. Rows are never deleted.

use berth_core::environment::{LockHolder, Session, SessionDrain, SessionEnd, SessionEndReason};
use berth_core::event::Actor;
use berth_core::id::{DeploymentId, EnvironmentId, SessionId};
use berth_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::error::StoreError;
use crate::sql::value::{SqlValue, text};
use crate::sql::{
    FromRow, FromValue, QueuedWrite, RowReader, TableRow as _, ToParams, ToValue, json_columns, statements,
    table, word_columns,
};
use crate::tx::{StoreRead, Tx};

table!(Org Session in sessions {
    key: [id],
    update: [
        commit: commit_id, extended_at, extensions, expires_at, lease_expires_at, active_at, warned_of, deployments, drain,
        end: (ended_at, end_reason, ended_by, end_why, successor_id),
    ],
    derived: [user_id = |it| it.holder.id],
    insert: [
        environment: environment_id, number, fence, holder, context, contact, claimed_at, ttl_seconds, lease_seconds,
        idle_seconds,
    ],
});
json_columns!(Actor, LockHolder, StoredDrain);
word_columns!(SessionEndReason: SessionEndReason::ALL);

statements! {
    Org Read BY_ID => Session::TABLE.select("WHERE org_id = $1 AND id = $2");
    Org Read HISTORY => Session::TABLE.select(
        "WHERE org_id = $1 AND environment_id = $2 AND number <= $3 ORDER BY number DESC LIMIT $4");
    // Does not change a session that has ended.
    Org Write PUT => Session::TABLE.upsert("WHERE sessions.ended_at IS NULL");
    // A heartbeat. It is no event, so that heartbeats do not fill the audit log.
    Org Upkeep RENEW_LEASE = "UPDATE sessions SET lease_expires_at = $3
        WHERE org_id = $1 AND id = $2 AND ended_at IS NULL";
    Instance Upkeep RENEW_LEASES = "UPDATE sessions SET lease_expires_at = $1 + lease_seconds * 1000000
        WHERE ended_at IS NULL AND lease_expires_at < $1 + lease_seconds * 1000000";
    // Ends an existing session. Cheaper than the upsert, which first has to check for conflicts.
    Org Write END => Session::TABLE.update("WHERE org_id = $1 AND id = $2 AND ended_at IS NULL");
}

/// A drain with times in microseconds, because the JSON of the API has only milliseconds.
#[derive(Serialize, Deserialize)]
struct StoredDrain {
    pending: Vec<DeploymentId>,
    deadline: i64,
    completed_at: Option<i64>,
}

impl FromValue for SessionDrain {
    fn from_value(value: SqlValue) -> Result<Self, String> {
        let StoredDrain { pending, deadline, completed_at } = StoredDrain::from_value(value)?;
        let completed_at = completed_at.map(Timestamp::from_micros);
        Ok(Self { pending, deadline: Timestamp::from_micros(deadline), completed_at })
    }
}

impl ToValue for SessionDrain {
    fn to_value(&self) -> Result<SqlValue, StoreError> {
        let completed_at = self.completed_at.map(Timestamp::as_micros);
        StoredDrain { pending: self.pending.clone(), deadline: self.deadline.as_micros(), completed_at }
            .to_value()
    }
}

impl FromRow for Option<SessionEnd> {
    fn from_row(row: &mut RowReader) -> Result<Self, StoreError> {
        let Some(at) = row.take()? else {
            row.skip(4);
            return Ok(None);
        };
        let (reason, by, why, successor) = row.take()?;
        Ok(Some(SessionEnd { at, reason, by, why, successor }))
    }
}

impl ToParams for Option<SessionEnd> {
    fn to_params(&self, params: &mut Vec<SqlValue>) -> Result<(), StoreError> {
        let end = self.as_ref();
        let why = end.and_then(|end| end.why.as_ref());
        let (at, reason, by) = (end.map(|end| end.at), end.map(|end| end.reason), end.map(|end| &end.by));
        (at, reason, by, why, end.and_then(|end| end.successor)).to_params(params)
    }
}

pub fn by_id(db: &mut impl StoreRead, id: SessionId) -> Result<Option<Session>, StoreError> {
    db.fetch_optional(&BY_ID, &[text(id)])
}

/// Lists an environment's sessions with this number and below, newest first.
pub fn list_before(
    db: &mut impl StoreRead,
    environment: EnvironmentId,
    number: i64,
    limit: i64,
) -> Result<Vec<Session>, StoreError> {
    db.fetch_all(&HISTORY, &[text(environment), number.into(), limit.into()])
}

/// Writes the lease of an active session after a heartbeat. The environment stays due at the end of the previous lease;
/// its next sweep corrects that.
pub fn renew_lease(tx: &mut Tx<'_>, session: &Session) -> Result<(), StoreError> {
    tx.execute(&RENEW_LEASE, &[text(session.id), session.lease_expires_at.into()]).map(drop)
}

/// Restarts the leases of all active sessions. Returns the number of sessions.
pub fn renew_all_leases(tx: &mut Tx<'_>) -> Result<u64, StoreError> {
    let now = tx.now();
    tx.execute(&RENEW_LEASES, &[now.into()])
}

pub(crate) fn put(tx: &mut Tx<'_>, session: &Session) -> Result<(), StoreError> {
    let mut params = Vec::new();
    session.to_params(&mut params)?;
    if session.end.is_none() {
        return tx.queue(QueuedWrite::new(&PUT, params, 1));
    }
    // A session that is ended already has a row, unless it was claimed in this same transaction.
    let all = 0..params.len();
    let end = QueuedWrite::new(&END, params, 1).with_first_params(Session::TABLE.update_params());
    tx.queue(end.or_else(&PUT, all))
}
