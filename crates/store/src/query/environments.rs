//! What is due, what may start, what runs, and what has been.

use berth_core::deployment::Deployment;
use berth_core::environment::{Session, Ticket};
use berth_core::id::{DeploymentId, EnvironmentId, OrgId, SessionId};
use berth_core::time::Timestamp;

use super::Batch;
use crate::error::StoreError;
use crate::records::{deployment, session, ticket};
use crate::sql::statements;
use crate::tx::Read;
use crate::value::text;

/// Deployments shown with a session.
pub const SESSION_DEPLOYMENTS_MAX: i64 = 100;
/// Sessions and tickets that insights look at.
pub const INSIGHT_ROWS_MAX: i64 = 10_000;

statements! {
    Instance Read DUE = "SELECT org_id, id FROM environments WHERE due_at IS NOT NULL AND due_at <= $1
        ORDER BY due_at LIMIT $2";
    Instance Read NEXT_DUE = "SELECT due_at FROM environments WHERE due_at IS NOT NULL ORDER BY due_at LIMIT 1";
    Instance Read STARTABLE = "SELECT org_id, id, startable_id FROM (SELECT e.org_id, e.id, e.startable_id,
            ROW_NUMBER() OVER (PARTITION BY e.org_id ORDER BY e.startable_id) AS place
          FROM environments e JOIN pipelines p ON p.org_id = e.org_id AND p.id = e.pipeline_id
          WHERE e.startable_id IS NOT NULL AND p.status = 'active') AS ranked
        WHERE place <= $1 ORDER BY place, startable_id LIMIT $2";
    // Each names the one before it. From the newest on this would be a long way; every 16th is found by its number.
    Org Read HISTORY = "SELECT s.id, s.environment_id, s.number, s.fence, s.holder, s.commit_id, s.context, s.claimed_at,
          s.extended_at, s.extensions, s.ttl_seconds, s.expires_at, s.idle_seconds, s.active_at, s.warned_of,
          s.deployments, s.drain, s.ended_at, s.end_reason, s.ended_by, s.end_why, s.successor_id, s.previous_id
        FROM (WITH RECURSIVE back (id, previous_id, number) AS (
            SELECT id, previous_id, number FROM sessions WHERE org_id = $1 AND id = COALESCE(
              (SELECT id FROM sessions WHERE environment_id = $2 AND number % 16 = 0 AND number >= $3 AND org_id = $1
                ORDER BY number LIMIT 1),
              (SELECT last_session_id FROM environments WHERE org_id = $1 AND id = $2))
            UNION ALL SELECT p.id, p.previous_id, p.number FROM back b
              JOIN sessions p ON p.org_id = $1 AND p.id = b.previous_id WHERE b.number > $4)
          SELECT id FROM back WHERE number <= $3) AS found
        JOIN sessions s ON s.org_id = $1 AND s.id = found.id ORDER BY s.number DESC";
    Org Read OF_SESSION = "SELECT id, number, pipeline_id, environment_id, stage, definition_hash, session_id, fence,
          commit_id, requested_by, overrides_drain, status, runner, nonce, granted_at, cancel, failure, superseded_by,
          created_at, started_at, finished_at, resolved_commit, reason, retry_of
        FROM deployments WHERE org_id = $1 AND session_id = $2 ORDER BY number DESC LIMIT $3";
    Org Read TICKETS = "SELECT t.id, t.environment_id, t.number, t.holder, t.token_id, t.commit_id, t.context,
          t.ttl_seconds, t.deploy, t.created_at, t.expires_at, t.takeover_target, t.takeover_at, t.takeover_why,
          t.status, t.ended_at, t.cause, t.session_id, t.deployment_id, NULL, NULL, NULL, t.group_id
        FROM tickets t WHERE t.org_id = $1 AND t.environment_id = $2 ORDER BY t.number DESC LIMIT $3";
}

/// Environments in which time has made something due.
pub fn due(
    db: &mut impl Read,
    now: Timestamp,
    limit: i64,
) -> Result<Vec<(OrgId, EnvironmentId)>, StoreError> {
    db.rows(&DUE, &[now.into(), limit.into()])?.iter().map(|row| Ok((row.parse(0)?, row.parse(1)?))).collect()
}

pub fn next_due(db: &mut impl Read) -> Result<Option<Timestamp>, StoreError> {
    db.row(&NEXT_DUE, &[])?.map(|row| row.time(0)).transpose()
}

/// Deployments that may start now, of each organization, oldest first.
pub fn startable(
    db: &mut impl Read,
    batch: Batch,
) -> Result<Vec<(OrgId, EnvironmentId, DeploymentId)>, StoreError> {
    let rows = db.rows(&STARTABLE, &[batch.share.into(), batch.total.into()])?;
    rows.iter().map(|row| Ok((row.parse(0)?, row.parse(1)?, row.parse(2)?))).collect()
}

/// Sessions from this number down, newest first: so many numbers, whether or not there is a session of each.
pub fn history(
    db: &mut impl Read,
    environment: EnvironmentId,
    from_number: i64,
    limit: i64,
) -> Result<Vec<Session>, StoreError> {
    let last = from_number.saturating_sub(limit - 1);
    let rows = db.rows(&HISTORY, &[text(environment), from_number.into(), last.into()])?;
    rows.iter().map(session::read).collect()
}

/// Newest first.
pub fn deployments_of(db: &mut impl Read, session: SessionId) -> Result<Vec<Deployment>, StoreError> {
    let rows = db.rows(&OF_SESSION, &[text(session), SESSION_DEPLOYMENTS_MAX.into()])?;
    rows.iter().map(deployment::read).collect()
}

/// Everybody who stood in line, newest first.
pub fn tickets_of(db: &mut impl Read, environment: EnvironmentId) -> Result<Vec<Ticket>, StoreError> {
    let now = db.now();
    let rows = db.rows(&TICKETS, &[text(environment), INSIGHT_ROWS_MAX.into()])?;
    rows.iter().map(|row| ticket::read(row, now)).collect()
}
