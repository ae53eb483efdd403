//! The runners of an organization, and what is executed there.

use berth_core::id::{DeploymentId, StepRunId};
use berth_core::pipeline::grammar::StepId;
use berth_core::runner::Runner;
use berth_core::time::Timestamp;

use crate::error::StoreError;
use crate::records::runner::read;
use crate::sql::statements;
use crate::tx::Read;
use crate::value::Row;

statements! {
    // Not those whose token nobody came with in time.
    Org Read ALL = "SELECT id, name, labels, slots, program, created_at, token_expires_at, registered_at, boot,
          is_draining, seen_at, left_at, lost_ms, allowed_labels, isolation, exposed
        FROM runners
        WHERE org_id = $1 AND (registered_at IS NOT NULL OR token_expires_at > $2) ORDER BY id LIMIT $3";
    Org Read SEEN_SINCE = "SELECT id, name, labels, slots, program, created_at, token_expires_at, registered_at, boot,
          is_draining, seen_at, left_at, lost_ms, allowed_labels, isolation, exposed
        FROM runners
        WHERE org_id = $1 AND seen_at > $2 AND left_at IS NULL AND is_draining = 0 ORDER BY id LIMIT $3";
    Org Read RUNNING = "SELECT a.runner, a.deployment_id, a.step_id, s.step, a.granted_at FROM attempts a
        JOIN step_runs s ON s.org_id = a.org_id AND s.id = a.step_id
        WHERE a.org_id = $1 AND a.ended_at IS NULL AND a.parked_at IS NULL ORDER BY a.granted_at LIMIT $2";
}

pub fn all(db: &mut impl Read, limit: i64) -> Result<Vec<Runner>, StoreError> {
    let now = db.now();
    db.rows(&ALL, &[now.into(), limit.into()])?.iter().map(read).collect()
}

/// Those that were heard of after this moment and take work.
pub fn seen_since(db: &mut impl Read, since: Timestamp, limit: i64) -> Result<Vec<Runner>, StoreError> {
    db.rows(&SEEN_SINCE, &[since.into(), limit.into()])?.iter().map(read).collect()
}

/// An attempt that is executed somewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    /// The mark of its runner.
    pub runner: String,
    pub deployment: DeploymentId,
    pub step_run: StepRunId,
    pub step: StepId,
    pub since: Timestamp,
}

pub fn running(db: &mut impl Read, limit: i64) -> Result<Vec<Running>, StoreError> {
    let one = |row: &Row| {
        Ok(Running {
            runner: row.text(0)?.to_owned(),
            deployment: row.parse(1)?,
            step_run: row.parse(2)?,
            step: row.name(3)?,
            since: row.time(4)?,
        })
    };
    db.rows(&RUNNING, &[limit.into()])?.iter().map(one).collect()
}
