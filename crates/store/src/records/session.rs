//! Sessions: one row for each holding of an environment, for ever.

use berth_core::environment::fence::Fence;
use berth_core::environment::{Drain, End, EndReason, Session};
use berth_core::id::{DeploymentId, SessionId};
use berth_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::error::StoreError;
use crate::sql::statements;
use crate::tx::{Read, Tx};
use crate::value::{Row, text, to_json};

statements! {
    Org Read BY_ID = "SELECT id, environment_id, number, fence, holder, commit_id, context, claimed_at, extended_at,
          extensions, ttl_seconds, expires_at, idle_seconds, active_at, warned_of, deployments, drain, ended_at,
          end_reason, ended_by, end_why, successor_id
        FROM sessions WHERE org_id = $1 AND id = $2";
    // What has ended stays as it ended.
    Org Write PUT = "INSERT INTO sessions (org_id, id, commit_id, extended_at, extensions, expires_at, active_at, warned_of,
          deployments, drain, ended_at, end_reason, ended_by, end_why, successor_id, environment_id, number, fence,
          holder, context, claimed_at, ttl_seconds, idle_seconds)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22,
          $23)
        ON CONFLICT (org_id, id) DO UPDATE SET commit_id = excluded.commit_id,
          extended_at = excluded.extended_at, extensions = excluded.extensions, expires_at = excluded.expires_at,
          active_at = excluded.active_at, warned_of = excluded.warned_of, deployments = excluded.deployments,
          drain = excluded.drain, ended_at = excluded.ended_at, end_reason = excluded.end_reason,
          ended_by = excluded.ended_by, end_why = excluded.end_why, successor_id = excluded.successor_id
        WHERE sessions.ended_at IS NULL";
    // The same for one that is known: nothing is looked for that could stand in the way of a new one.
    Org Write END = "UPDATE sessions SET commit_id = $3, extended_at = $4, extensions = $5, expires_at = $6,
          active_at = $7, warned_of = $8, deployments = $9, drain = $10, ended_at = $11, end_reason = $12,
          ended_by = $13, end_why = $14, successor_id = $15
        WHERE org_id = $1 AND id = $2 AND ended_at IS NULL";
}

/// A drain's times in microseconds, as in every column: the form on the wire would cut them.
#[derive(Serialize, Deserialize)]
struct StoredDrain {
    pending: Vec<DeploymentId>,
    deadline: i64,
    completed_at: Option<i64>,
}

impl StoredDrain {
    fn of(drain: &Drain) -> Self {
        Self {
            pending: drain.pending.clone(),
            deadline: drain.deadline.as_micros(),
            completed_at: drain.completed_at.map(Timestamp::as_micros),
        }
    }

    fn read(self) -> Drain {
        Drain {
            pending: self.pending,
            deadline: Timestamp::from_micros(self.deadline),
            completed_at: self.completed_at.map(Timestamp::from_micros),
        }
    }
}

pub(crate) fn read(row: &Row) -> Result<Session, StoreError> {
    let end = match row.maybe(17, Row::time)? {
        None => None,
        Some(at) => Some(End {
            at,
            reason: end_reason(row.text(18)?)?,
            by: row.json(19)?,
            why: row.maybe(20, Row::name)?,
            successor: row.maybe(21, Row::parse)?,
        }),
    };
    Ok(Session {
        id: row.parse(0)?,
        environment: row.parse(1)?,
        number: row.int(2)?,
        fence: Fence::from_number(row.int(3)?),
        holder: row.json(4)?,
        commit: row.maybe(5, Row::name)?,
        context: row.maybe(6, Row::name)?,
        claimed_at: row.time(7)?,
        extended_at: row.maybe(8, Row::time)?,
        extensions: row.int(9)?,
        ttl_seconds: row.maybe(10, Row::int)?,
        expires_at: row.maybe(11, Row::time)?,
        idle_seconds: row.maybe(12, Row::int)?,
        active_at: row.time(13)?,
        warned_of: row.maybe(14, Row::time)?,
        deployments: row.int(15)?,
        drain: row.maybe(16, Row::json::<StoredDrain>)?.map(StoredDrain::read),
        end,
    })
}

fn end_reason(word: &str) -> Result<EndReason, StoreError> {
    EndReason::ALL
        .into_iter()
        .find(|reason| reason.as_str() == word)
        .ok_or_else(|| StoreError::Bug(format!("unknown end reason {word}")))
}

pub fn by_id(db: &mut impl Read, id: SessionId) -> Result<Option<Session>, StoreError> {
    db.row(&BY_ID, &[text(id)])?.as_ref().map(read).transpose()
}

pub(crate) fn put(tx: &mut Tx<'_>, it: &Session) -> Result<(), StoreError> {
    let end = it.end.as_ref();
    let mut params = vec![
        text(it.id),
        it.commit.as_ref().map(text).into(),
        it.extended_at.into(),
        it.extensions.into(),
        it.expires_at.into(),
        it.active_at.into(),
        it.warned_of.into(),
        it.deployments.into(),
        it.drain.as_ref().map(StoredDrain::of).as_ref().map(to_json).transpose()?.into(),
        end.map(|end| end.at).into(),
        end.map(|end| end.reason.as_str()).into(),
        end.map(|end| to_json(&end.by)).transpose()?.into(),
        end.and_then(|end| end.why.as_ref()).map(text).into(),
        end.and_then(|end| end.successor).map(text).into(),
    ];
    // One that ends is known, unless it began in the same moment.
    if end.is_some() && tx.execute(&END, &params)? == 1 {
        return Ok(());
    }
    params.extend([
        text(it.environment),
        it.number.into(),
        it.fence.number().into(),
        to_json(&it.holder)?.into(),
        it.context.as_ref().map(text).into(),
        it.claimed_at.into(),
        it.ttl_seconds.into(),
        it.idle_seconds.into(),
    ]);
    tx.execute_one(&PUT, &params)
}
