//! What deployments left behind and nobody keeps any longer.

use berth_core::id::{DeploymentId, OrgId};
use berth_core::time::Timestamp;

use crate::error::StoreError;
use crate::sql::statements;
use crate::tx::{Read, Tx};
use crate::value::text;

statements! {
    // The condition is that of the index.
    Instance Read OLD_LOGS = "SELECT org_id, id FROM deployments
        WHERE finished_at IS NOT NULL AND (logs_removed_at IS NULL OR logs_removed_at < finished_at) AND finished_at <= $1
        ORDER BY finished_at LIMIT $2";
    // One that goes on meanwhile, because somebody retried it, is left alone.
    Org Upkeep NOTE_LOGS = "UPDATE deployments SET logs_removed_at = $3
        WHERE org_id = $1 AND id = $2 AND finished_at IS NOT NULL AND finished_at <= $4";
}

/// Deployments that ended before this moment and whose logs are still there, oldest first.
pub fn old_logs(
    db: &mut impl Read,
    before: Timestamp,
    limit: i64,
) -> Result<Vec<(OrgId, DeploymentId)>, StoreError> {
    let rows = db.rows(&OLD_LOGS, &[before.into(), limit.into()])?;
    rows.iter().map(|row| Ok((row.parse(0)?, row.parse(1)?))).collect()
}

/// False: it goes on, and keeps its logs.
pub fn note_logs_removed(tx: &mut Tx<'_>, id: DeploymentId, before: Timestamp) -> Result<bool, StoreError> {
    let now = tx.now();
    Ok(tx.execute(&NOTE_LOGS, &[text(id), now.into(), before.into()])? == 1)
}
