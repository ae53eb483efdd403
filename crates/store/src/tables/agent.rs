//! Limits of agents, their use of them, and the switch that stops all agents of an organization.

use berth_core::agent::{AgentHour, AgentLimits, TakeoverScope};
use berth_core::event::Actor;
use berth_core::id::{EnvironmentId, UserId};
use berth_core::name::Reason;
use berth_core::time::Timestamp;

use crate::error::StoreError;
use crate::sql::value::text;
use crate::sql::{
    BoundRead, FromRow, RowReader, TableRow as _, column_group, from_row, statements, table, word_columns,
};
use crate::tx::{StoreRead, Tx};

/// Number of environments in one page of those in which agents are stopped.
const ENVIRONMENTS_PAGE: i64 = 1_000;

table!(Org Agent in agents {
    key: [user: user_id],
    update: [
        limits: (sessions, session_seconds, deployments_per_hour, force_claim),
        hour: (hour_started_at, hour_deployments),
    ],
});
column_group!(AgentLimits { sessions, session_seconds, deployments_per_hour, force_claim });
column_group!(AgentHour { started_at, deployments });
word_columns!(TakeoverScope: TakeoverScope::ALL);

statements! {
    Org Read BY_USER => Agent::TABLE.select("WHERE org_id = $1 AND user_id = $2");
    Org Write PUT => Agent::TABLE.upsert("");
    // Counting a deployment is no event of its own; the deployment is.
    Org Upkeep SET_HOUR = "UPDATE agents SET hour_started_at = $3, hour_deployments = $4
        WHERE org_id = $1 AND user_id = $2";
    Org Write DELETE = "DELETE FROM agents WHERE org_id = $1 AND user_id = $2";
    // The tickets of one claim for any of several environments count once, because only one of them is granted.
    Org Read USED_SESSIONS = "SELECT CAST((SELECT COUNT(*) FROM sessions
            WHERE org_id = $1 AND user_id = $2 AND ended_at IS NULL)
          + (SELECT COUNT(DISTINCT COALESCE(group_id, id)) FROM tickets
            WHERE org_id = $1 AND user_id = $2 AND status = 'waiting') AS BIGINT)";
    Org Read ENVIRONMENTS = "SELECT s.environment_id FROM sessions s
          JOIN agents a ON a.org_id = s.org_id AND a.user_id = s.user_id
          WHERE s.org_id = $1 AND s.ended_at IS NULL
        UNION SELECT t.environment_id FROM tickets t
          JOIN agents a ON a.org_id = t.org_id AND a.user_id = t.user_id
          WHERE t.org_id = $1 AND t.status = 'waiting' ORDER BY 1 LIMIT $2";
    Org Read STOP = "SELECT stopped_at, stopped_by, reason FROM agent_stops WHERE org_id = $1";
    Org Write PUT_STOP = "INSERT INTO agent_stops (org_id, stopped_at, stopped_by, reason) VALUES ($1, $2, $3, $4)";
    Org Write DELETE_STOP = "DELETE FROM agent_stops WHERE org_id = $1";
}

#[derive(Debug, Clone, PartialEq)]
pub struct Agent {
    pub user: UserId,
    pub limits: AgentLimits,
    pub hour: AgentHour,
}

/// Why and by whom all agents were stopped.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentStop {
    pub at: Timestamp,
    pub by: Actor,
    pub reason: Option<Reason>,
}
from_row!(AgentStop { at, by, reason });

impl FromRow for Option<AgentLimits> {
    fn from_row(row: &mut RowReader) -> Result<Self, StoreError> {
        let Some(sessions) = row.take()? else {
            row.skip(3);
            return Ok(None);
        };
        let (session_seconds, deployments_per_hour, force_claim) = row.take()?;
        Ok(Some(AgentLimits { sessions, session_seconds, deployments_per_hour, force_claim }))
    }
}

/// The read of [`by_user`].
pub fn read_of_user(user: UserId) -> BoundRead {
    BoundRead::new(&BY_USER, [text(user)])
}

pub fn by_user(db: &mut impl StoreRead, user: UserId) -> Result<Option<Agent>, StoreError> {
    Ok(db.fetch_bound(&read_of_user(user))?.into_iter().next())
}

pub fn put(tx: &mut Tx<'_>, agent: &Agent) -> Result<(), StoreError> {
    tx.put(&PUT, agent)
}

pub fn set_hour(tx: &mut Tx<'_>, user: UserId, hour: AgentHour) -> Result<(), StoreError> {
    tx.execute(&SET_HOUR, &[text(user), hour.started_at.into(), hour.deployments.into()]).map(drop)
}

/// Deletes the limits of a user, if it is an agent.
pub(crate) fn delete(tx: &mut Tx<'_>, user: UserId) -> Result<(), StoreError> {
    tx.execute(&DELETE, &[text(user)]).map(drop)
}

/// The number of sessions that a user holds or waits for.
pub fn count_used_sessions(db: &mut impl StoreRead, user: UserId) -> Result<i64, StoreError> {
    db.fetch_count(&USED_SESSIONS, &[text(user)])
}

/// The first environments that agents hold or wait for.
pub fn list_environments(db: &mut impl StoreRead) -> Result<Vec<EnvironmentId>, StoreError> {
    db.fetch_all(&ENVIRONMENTS, &[ENVIRONMENTS_PAGE.into()])
}

pub fn find_stop(db: &mut impl StoreRead) -> Result<Option<AgentStop>, StoreError> {
    db.fetch_optional(&STOP, &[])
}

pub fn put_stop(tx: &mut Tx<'_>, stop: &AgentStop) -> Result<(), StoreError> {
    let by = crate::sql::value::to_json(&stop.by)?;
    let reason = stop.reason.as_ref().map(ToString::to_string);
    tx.execute_one(&PUT_STOP, &[stop.at.into(), by.into(), reason.into()])
}

pub fn delete_stop(tx: &mut Tx<'_>) -> Result<(), StoreError> {
    tx.execute_one(&DELETE_STOP, &[])
}
