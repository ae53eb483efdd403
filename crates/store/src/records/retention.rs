//! What deployments left behind and nobody keeps any longer.

use berth_core::id::{DeploymentId, OrgId};
use berth_core::time::Timestamp;

use crate::error::StoreError;
use crate::query::everywhere::{LeftBehind, after_left_behind, read_left_behind};
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
    // The last good ones of each stage, and what they brought back, are what it can go back to; those that were taken back do
    // not count. Nor does one go that somebody is going back to. The first condition is that of the index.
    Instance Read OLD_ARTIFACTS = "SELECT d.org_id, d.id FROM deployments d
        WHERE d.finished_at IS NOT NULL AND (d.artifacts_removed_at IS NULL OR d.artifacts_removed_at < d.finished_at)
          AND d.finished_at <= $1
          AND NOT EXISTS (SELECT 1 FROM stage_ends e
            JOIN pipelines p ON p.org_id = e.org_id AND p.id = e.pipeline_id AND p.deleted_at IS NULL
            WHERE e.org_id = d.org_id AND e.pipeline_id = d.pipeline_id AND (e.deployment_id = d.id OR e.origin_id = d.id)
              AND e.is_success = 1
              AND (SELECT COUNT(*) FROM stage_ends l WHERE l.org_id = e.org_id AND l.pipeline_id = e.pipeline_id
                AND l.stage = e.stage AND l.ended_at > e.ended_at AND l.is_success = 1 AND l.of_id IS NULL
                AND NOT EXISTS (SELECT 1 FROM stage_ends t WHERE t.org_id = l.org_id AND t.pipeline_id = l.pipeline_id
                  AND t.stage = l.stage AND t.of_id = l.deployment_id)) < $3)
          AND NOT EXISTS (SELECT 1 FROM deployments r WHERE r.org_id = d.org_id AND r.pipeline_id = d.pipeline_id
            AND r.environment_id IS NULL AND r.finished_at IS NULL AND r.cause_kind LIKE '%' || d.id || '%')
        ORDER BY d.finished_at LIMIT $2";
    Org Upkeep NOTE_ARTIFACTS = "UPDATE deployments SET artifacts_removed_at = $3
        WHERE org_id = $1 AND id = $2 AND finished_at IS NOT NULL AND finished_at <= $4";
    Org Read GIVEN_UP = "SELECT s.id FROM step_runs s JOIN deployments d ON d.org_id = s.org_id AND d.id = s.deployment_id
        WHERE s.org_id = $1 AND s.deployment_id = $2 AND s.artifacts IS NOT NULL AND s.finished_at <= d.artifacts_removed_at LIMIT 1";
    // The next deployment of the commit builds again.
    Org Upkeep FORGET_BUILDS = "DELETE FROM builds WHERE org_id = $1 AND deployment_id = $2 AND built_at IS NOT NULL";
    // What was given up only lately counts: a backup that is being made may still speak of it.
    Org Read SPOKEN_OF = "SELECT s.deployment_id, s.stage, s.position, s.artifacts FROM step_runs s
        JOIN deployments d ON d.org_id = s.org_id AND d.id = s.deployment_id
        WHERE s.org_id = $1 AND (s.deployment_id, s.stage, s.position) > ($2, $3, $4) AND s.artifacts IS NOT NULL
          AND (d.finished_at IS NULL OR d.artifacts_removed_at IS NULL OR d.artifacts_removed_at < d.finished_at
            OR d.artifacts_removed_at > $6)
        ORDER BY s.deployment_id, s.stage, s.position LIMIT $5";
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

/// Deployments that ended before this moment and have not given up their artifacts, oldest first; without the last
/// `good_kept` that succeeded in each stage.
pub fn old_artifacts(
    db: &mut impl Read,
    before: Timestamp,
    good_kept: i64,
    limit: i64,
) -> Result<Vec<(OrgId, DeploymentId)>, StoreError> {
    let rows = db.rows(&OLD_ARTIFACTS, &[before.into(), limit.into(), good_kept.into()])?;
    rows.iter().map(|row| Ok((row.parse(0)?, row.parse(1)?))).collect()
}

/// No later deployment takes over what it has built. False: it goes on, and keeps its artifacts.
pub fn give_up_artifacts(tx: &mut Tx<'_>, id: DeploymentId, before: Timestamp) -> Result<bool, StoreError> {
    let now = tx.now();
    if tx.execute(&NOTE_ARTIFACTS, &[text(id), now.into(), before.into()])? != 1 {
        return Ok(false);
    }
    tx.execute(&FORGET_BUILDS, &[text(id)])?;
    Ok(true)
}

/// Whether it had artifacts that are no longer kept.
pub fn has_given_up(db: &mut impl Read, id: DeploymentId) -> Result<bool, StoreError> {
    Ok(db.row(&GIVEN_UP, &[text(id)])?.is_some())
}

/// Artifacts that are needed, or were given up after `lately`; a page after this one.
pub fn spoken_of(
    db: &mut impl Read,
    after: Option<&LeftBehind>,
    lately: Timestamp,
) -> Result<Vec<LeftBehind>, StoreError> {
    let [deployment, stage, position, limit] = after_left_behind(after);
    let rows = db.rows(&SPOKEN_OF, &[deployment, stage, position, limit, lately.into()])?;
    rows.iter().map(read_left_behind).collect()
}
