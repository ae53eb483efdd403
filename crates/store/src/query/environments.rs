//! What is due, what may start, what runs, and what has been.

use berth_core::deployment::Deployment;
use berth_core::environment::Ticket;
use berth_core::id::{DeploymentId, EnvironmentId, OrgId, SessionId};
use berth_core::time::Timestamp;

use super::Batch;
use crate::error::StoreError;
use crate::records::{deployment, ticket};
use crate::sql::statements;
use crate::tx::Read;
use crate::value::text;

pub use crate::tables::session::list_before as history;

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
