//! Queries for the scheduler. They find deployments that it must plan, admit to a stage, wake or stop, or whose steps
//! it can grant to runners.

use berth_core::deployment::run::enter::StageContender;
use berth_core::deployment::run::{StageRun, StageRunStatus};
use berth_core::deployment::{StagesDeployment, StartTrigger};
use berth_core::id::{DeploymentId, EnvironmentId, OrgId, PipelineId};
use berth_core::time::Timestamp;

use crate::error::StoreError;
use crate::pagination::FairBatch;
use crate::sql::value::text;
use crate::sql::{from_row, statements};
use crate::tx::StoreRead;

statements! {
    Instance Read READY = "SELECT r.org_id, r.deployment_id, r.ready_at, r.version FROM runs r
        JOIN pipelines p ON p.org_id = r.org_id AND p.id = r.pipeline_id
        WHERE r.ready_at IS NOT NULL AND r.ready_at <= $1 AND r.ready_at >= $2
          AND (r.ready_at > $2 OR r.deployment_id > $3) AND p.deleted_at IS NULL
          AND (p.status = 'active' OR EXISTS (SELECT 1 FROM deployments d
            WHERE d.org_id = r.org_id AND d.id = r.deployment_id AND d.bypass IS NOT NULL)
            OR EXISTS (SELECT 1 FROM step_runs s
            WHERE s.org_id = r.org_id AND s.deployment_id = r.deployment_id AND s.memory IS NOT NULL))
        ORDER BY r.ready_at, r.deployment_id LIMIT $4";
    Instance Read NEXT_READY = "SELECT MIN(ready_at) FROM runs WHERE ready_at > $1";
    // Deployments that were cancelled but are not yet known to have stopped.
    Instance Read CANCELLING = "SELECT org_id, id, environment_id FROM (SELECT org_id, id, environment_id, granted_at,
            ROW_NUMBER() OVER (PARTITION BY org_id ORDER BY granted_at, id) AS place
          FROM deployments WHERE environment_id IS NOT NULL AND granted_at IS NOT NULL AND finished_at IS NULL
            AND status = 'cancelling') AS ranked
        WHERE place <= $1 ORDER BY place, granted_at, id LIMIT $2";
    // Deployments that an old version of Berth started. That version did not create runs.
    Instance Read WITHOUT_RUN = "SELECT d.org_id, d.id, d.environment_id FROM deployments d
        WHERE d.environment_id IS NOT NULL AND d.granted_at IS NOT NULL AND d.finished_at IS NULL
          AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.org_id = d.org_id AND r.deployment_id = d.id) LIMIT $1";
    Instance Read TO_PLAN = "SELECT org_id, id FROM (SELECT d.org_id, d.id, d.created_at,
            ROW_NUMBER() OVER (PARTITION BY d.org_id ORDER BY d.created_at, d.id) AS place
          FROM deployments d JOIN pipelines p ON p.org_id = d.org_id AND p.id = d.pipeline_id
          WHERE d.environment_id IS NULL AND d.status = 'queued' AND p.deleted_at IS NULL
            AND (p.status = 'active' OR d.bypass IS NOT NULL)) AS ranked
        WHERE place <= $1 ORDER BY place, created_at, id LIMIT $2";
    // A deployment that waits for a stage has the status `running` or `waiting`.
    Instance Read QUEUED = "SELECT r.org_id, r.deployment_id, d.created_at FROM deployments d
        JOIN runs r ON r.org_id = d.org_id AND r.deployment_id = d.id
        JOIN pipelines p ON p.org_id = d.org_id AND p.id = d.pipeline_id
        WHERE d.environment_id IS NULL AND d.finished_at IS NULL AND d.status IN ('running', 'waiting')
          AND (p.status = 'active' OR d.bypass IS NOT NULL) AND p.deleted_at IS NULL
          AND r.queued_for IS NOT NULL AND d.created_at >= $1 AND (d.created_at > $1 OR d.id > $2)
        ORDER BY d.created_at, d.id LIMIT $3";
    Instance Read WAKING = "SELECT org_id, deployment_id FROM runs
        WHERE wakes_at IS NOT NULL AND wakes_at <= $1 ORDER BY wakes_at LIMIT $2";
    // A deployment that finished before `$4` cannot have entered the stage after `$4`.
    Org Read ENTERED = "SELECT d.number, r.stages FROM deployments d
        JOIN runs r ON r.org_id = d.org_id AND r.deployment_id = d.id
        WHERE d.org_id = $1 AND d.pipeline_id = $2 AND d.environment_id IS NULL AND d.id <> $3
          AND (d.finished_at IS NULL OR d.finished_at >= $4)
        ORDER BY d.number DESC LIMIT $5";
    Org Read CONTENDERS = "SELECT d.id, d.number, r.stages, d.cause_kind FROM deployments d
        JOIN runs r ON r.org_id = d.org_id AND r.deployment_id = d.id
        WHERE d.org_id = $1 AND d.pipeline_id = $2 AND d.environment_id IS NULL AND d.finished_at IS NULL
        ORDER BY d.number";
}

/// A deployment that has a step to grant to a runner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadyDeployment {
    pub org: OrgId,
    pub deployment: DeploymentId,
    pub ready_at: Timestamp,
    pub version: i64,
}
from_row!(ReadyDeployment { org, deployment, ready_at, version });

/// Deployments with a step to grant, longest waiting first. `after` is the last deployment of the previous page.
pub fn list_ready(
    db: &mut impl StoreRead,
    now: Timestamp,
    after: Option<(Timestamp, DeploymentId)>,
    limit: i64,
) -> Result<Vec<ReadyDeployment>, StoreError> {
    let (from, last) = after.map_or((0, String::new()), |(at, id)| (at.as_micros(), id.to_string()));
    db.fetch_all(&READY, &[now.into(), from.into(), last.into(), limit.into()])
}

/// The earliest time after `now` at which a deployment will have a step to grant.
pub fn find_next_ready(db: &mut impl StoreRead, now: Timestamp) -> Result<Option<Timestamp>, StoreError> {
    Ok(db.fetch_optional(&NEXT_READY, &[now.into()])?.flatten())
}

type EnvironmentDeploymentKey = (OrgId, DeploymentId, EnvironmentId);

/// Environment deployments whose cancellation is still in progress. Each organization gets a share of the batch.
pub fn list_cancelling(
    db: &mut impl StoreRead,
    batch: FairBatch,
) -> Result<Vec<EnvironmentDeploymentKey>, StoreError> {
    db.fetch_all(&CANCELLING, &[batch.share.into(), batch.total.into()])
}

/// Deployments to environments that were started but have no run. Nothing else would ever continue them.
pub fn list_without_run(
    db: &mut impl StoreRead,
    limit: i64,
) -> Result<Vec<EnvironmentDeploymentKey>, StoreError> {
    db.fetch_all(&WITHOUT_RUN, &[limit.into()])
}

/// Queued deployments through stages, oldest first. Each organization gets a share of the batch.
pub fn list_to_plan(
    db: &mut impl StoreRead,
    batch: FairBatch,
) -> Result<Vec<(OrgId, DeploymentId)>, StoreError> {
    db.fetch_all(&TO_PLAN, &[batch.share.into(), batch.total.into()])
}

/// Deployments that wait to enter a stage, oldest first, with their creation times. `after` is the last deployment of
/// the previous page.
pub fn list_queued(
    db: &mut impl StoreRead,
    after: Option<(Timestamp, DeploymentId)>,
    limit: i64,
) -> Result<Vec<(OrgId, DeploymentId, Timestamp)>, StoreError> {
    let (at, id) = after.map_or((i64::MIN, String::new()), |(at, id)| (at.as_micros(), id.to_string()));
    db.fetch_all(&QUEUED, &[at.into(), id.into(), limit.into()])
}

/// Deployments whose timer has expired, because a soak is over or the deadline of a parked custom step has passed.
pub fn list_waking(
    db: &mut impl StoreRead,
    now: Timestamp,
    limit: i64,
) -> Result<Vec<(OrgId, DeploymentId)>, StoreError> {
    db.fetch_all(&WAKING, &[now.into(), limit.into()])
}

/// The other unfinished deployments of a pipeline, with the status of each in this stage.
pub fn list_contenders(
    db: &mut impl StoreRead,
    pipeline: PipelineId,
    stage: &str,
    without: DeploymentId,
) -> Result<Vec<StageContender>, StoreError> {
    let rows: Vec<(DeploymentId, i64, Vec<StageRun>, StartTrigger)> =
        db.fetch_all(&CONTENDERS, &[text(pipeline)])?;
    let contenders = rows.into_iter().filter(|(deployment, ..)| *deployment != without);
    let contenders = contenders.map(|(deployment, number, stages, trigger)| {
        let status =
            stages.iter().find(|it| it.name == stage).map_or(StageRunStatus::Pending, |it| it.status);
        StageContender { deployment, number, status, is_rollback: trigger.rollback_of().is_some() }
    });
    Ok(contenders.collect())
}

/// Finds the deployment that entered a stage last, and returns its number. Returns `None` if that is `of` itself.
/// Compares times instead of numbers, because an older deployment can enter a stage after a newer one. `stages` are the
/// stages of
/// `of`. At most `limit` deployments are compared.
pub fn find_entered_since(
    db: &mut impl StoreRead,
    of: &StagesDeployment,
    stages: &[StageRun],
    stage: &str,
    limit: i64,
) -> Result<Option<i64>, StoreError> {
    let own = stages.iter().find(|it| it.name == stage);
    // If there is neither a start nor an end, the deployment never entered the stage.
    let Some(since) = own.and_then(|it| it.started_at.or(it.finished_at)) else { return Ok(None) };
    let params = [text(of.pipeline), text(of.id), since.into(), limit.into()];
    let rows: Vec<(i64, Vec<StageRun>)> = db.fetch_all(&ENTERED, &params)?;
    let mut last = (since, of.number);
    for (number, stages) in rows {
        let entered = stages.iter().find(|it| it.name == stage && it.tries > 0).and_then(|it| it.started_at);
        if let Some(at) = entered {
            last = last.max((at, number));
        }
    }
    Ok(Some(last.1).filter(|number| *number != of.number))
}
