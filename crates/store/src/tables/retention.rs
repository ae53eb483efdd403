//! Retention of the logs and artifacts of deployments.

use std::collections::BTreeMap;

use berth_core::id::{DeploymentId, OrgId, StepRunId};
use berth_core::time::Timestamp;

use super::{PAGE_ROWS, first_after};
use crate::error::StoreError;
use crate::sql::value::{SqlValue, text};
use crate::sql::{from_row, statements};
use crate::tx::{StoreRead, Tx};

statements! {
    // The first conditions repeat those of a partial index, so that the database uses it.
    Instance Read OLD_LOGS = "SELECT org_id, id FROM deployments
        WHERE finished_at IS NOT NULL AND (logs_removed_at IS NULL OR logs_removed_at < finished_at) AND finished_at <= $1
        ORDER BY finished_at LIMIT $2";
    // Does not change a deployment that was retried in the meantime.
    Org Upkeep NOTE_LOGS = "UPDATE deployments SET logs_removed_at = $3
        WHERE org_id = $1 AND id = $2 AND finished_at IS NOT NULL AND finished_at <= $4";
    // A deployment keeps its artifacts as long as it can be the target of a rollback: fewer than `$3` later deployments
    // have succeeded in one of its stages, not counting rollbacks and deployments that were rolled back. If that target
    // is itself a rollback, the deployment whose plan it executed keeps its artifacts too. So does the target of a
    // running rollback. The first conditions repeat those of a partial index, so that the database uses it.
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
    // Deletes the shared build results, so that the next deployment of the commit builds again.
    Org Upkeep FORGET_BUILDS = "DELETE FROM builds WHERE org_id = $1 AND deployment_id = $2 AND built_at IS NOT NULL";
    // Includes recently removed artifacts, because a backup in progress may still refer to them.
    Org Read REFERENCED = "SELECT s.deployment_id, s.stage, s.position, s.artifacts FROM step_runs s
        JOIN deployments d ON d.org_id = s.org_id AND d.id = s.deployment_id
        WHERE s.org_id = $1 AND (s.deployment_id, s.stage, s.position) > ($2, $3, $4) AND s.artifacts IS NOT NULL
          AND (d.finished_at IS NULL OR d.artifacts_removed_at IS NULL OR d.artifacts_removed_at < d.finished_at
            OR d.artifacts_removed_at > $6)
        ORDER BY s.deployment_id, s.stage, s.position LIMIT $5";
    // Compares the time of each step: if only a later stage is retried, the artifacts of earlier steps stay removed.
    Org Read LEFT_BEHIND = "SELECT s.deployment_id, s.stage, s.position, s.artifacts FROM step_runs s
        JOIN deployments d ON d.org_id = s.org_id AND d.id = s.deployment_id
        WHERE s.org_id = $1 AND (s.deployment_id, s.stage, s.position) > ($2, $3, $4) AND s.artifacts IS NOT NULL
          AND (d.artifacts_removed_at IS NULL OR s.finished_at IS NULL OR d.artifacts_removed_at < s.finished_at)
        ORDER BY s.deployment_id, s.stage, s.position LIMIT $5";
    Org Read LOGGED = "SELECT deployment_id, step_id, number FROM attempts
        WHERE org_id = $1 AND (deployment_id, step_id, number) > ($2, $3, $4) AND ended_at IS NOT NULL AND log_bytes > 0
        ORDER BY deployment_id, step_id, number LIMIT $5";
}

/// A finished attempt that has a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoggedAttempt {
    pub deployment: DeploymentId,
    pub step: StepRunId,
    pub attempt: u32,
}
from_row!(LoggedAttempt { deployment, step, attempt });

/// The artifacts of a step: their names and digests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepArtifacts {
    pub deployment: DeploymentId,
    pub stage: i64,
    pub position: i64,
    pub artifacts: BTreeMap<String, String>,
}
from_row!(StepArtifacts { deployment, stage, position, artifacts });

/// Deployments that ended before this time and still have logs, oldest first.
pub fn list_old_logs(
    db: &mut impl StoreRead,
    before: Timestamp,
    limit: i64,
) -> Result<Vec<(OrgId, DeploymentId)>, StoreError> {
    db.fetch_all(&OLD_LOGS, &[before.into(), limit.into()])
}

/// Marks the logs of a deployment as removed. Returns false if the deployment must keep them, because it was retried in
/// the meantime.
pub fn mark_logs_removed(tx: &mut Tx<'_>, id: DeploymentId, before: Timestamp) -> Result<bool, StoreError> {
    let now = tx.now();
    Ok(tx.execute(&NOTE_LOGS, &[text(id), now.into(), before.into()])? == 1)
}

/// Deployments that ended before this time and still have artifacts, oldest first. Leaves out the last `good_kept`
/// successful deployments of each stage.
pub fn list_old_artifacts(
    db: &mut impl StoreRead,
    before: Timestamp,
    good_kept: i64,
    limit: i64,
) -> Result<Vec<(OrgId, DeploymentId)>, StoreError> {
    db.fetch_all(&OLD_ARTIFACTS, &[before.into(), limit.into(), good_kept.into()])
}

/// Marks the artifacts of a deployment as removed and deletes its build. Returns false if the deployment must keep
/// them, because it was retried in the meantime.
pub fn mark_artifacts_removed(
    tx: &mut Tx<'_>,
    id: DeploymentId,
    before: Timestamp,
) -> Result<bool, StoreError> {
    let now = tx.now();
    if tx.execute(&NOTE_ARTIFACTS, &[text(id), now.into(), before.into()])? != 1 {
        return Ok(false);
    }
    tx.execute(&FORGET_BUILDS, &[text(id)])?;
    Ok(true)
}

/// Whether some artifacts of the deployment were removed.
pub fn has_removed_artifacts(db: &mut impl StoreRead, id: DeploymentId) -> Result<bool, StoreError> {
    Ok(db.row(&GIVEN_UP, &[text(id)])?.is_some())
}

/// Artifacts that are in use or were removed after `lately`, one page at a time.
pub fn list_referenced_artifacts(
    db: &mut impl StoreRead,
    after: Option<&StepArtifacts>,
    lately: Timestamp,
) -> Result<Vec<StepArtifacts>, StoreError> {
    let [deployment, stage, position, limit] = page_after(after);
    db.fetch_all(&REFERENCED, &[deployment, stage, position, limit, lately.into()])
}

/// Artifacts that were not removed, one page at a time.
pub fn list_artifacts(
    db: &mut impl StoreRead,
    after: Option<&StepArtifacts>,
) -> Result<Vec<StepArtifacts>, StoreError> {
    db.fetch_all(&LEFT_BEHIND, &page_after(after))
}

fn page_after(after: Option<&StepArtifacts>) -> [SqlValue; 4] {
    let (stage, position) = after.map_or((-1, -1), |it| (it.stage, it.position));
    [first_after(after.map(|it| it.deployment)), stage.into(), position.into(), PAGE_ROWS.into()]
}

/// Finished attempts that have logs, one page at a time.
pub fn list_logged_attempts(
    db: &mut impl StoreRead,
    after: Option<LoggedAttempt>,
) -> Result<Vec<LoggedAttempt>, StoreError> {
    let (deployment, step) = (after.map(|it| it.deployment), after.map(|it| it.step));
    let number = after.map_or(0, |it| i64::from(it.attempt));
    db.fetch_all(&LOGGED, &[first_after(deployment), first_after(step), number.into(), PAGE_ROWS.into()])
}
