//! Runs of all organizations that are ready, running, or waiting to be planned.

use berth_core::deployment::run::enter::Contender;
use berth_core::deployment::run::{StageRun, StageStatus};
use berth_core::deployment::{StagesDeployment, Trigger};
use berth_core::id::{DeploymentId, EnvironmentId, OrgId, PipelineId, StepRunId};
use berth_core::time::Timestamp;

use crate::error::StoreError;
use crate::pagination::Batch;
use crate::sql::statements;
use crate::sql::value::{Row, text};
use crate::tx::Read;

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
    Instance Read LIVE = "SELECT a.org_id, a.deployment_id, a.step_id, a.number, a.runner, a.nonce, a.renewal, a.lost_ms
        FROM attempts a WHERE a.ended_at IS NULL AND a.parked_at IS NULL ORDER BY a.granted_at LIMIT $1";
    Instance Read LIVE_OF = "SELECT a.org_id, a.deployment_id, a.step_id, a.number, a.runner, a.nonce, a.renewal, a.lost_ms
        FROM attempts a WHERE a.ended_at IS NULL AND a.parked_at IS NULL AND a.runner = $1 ORDER BY a.granted_at LIMIT $2";
    // Uses the partial index of live attempts.
    Org Read LIVE_BY_NONCE = "SELECT org_id, deployment_id, step_id, number, runner, nonce, renewal, lost_ms FROM attempts
        WHERE org_id = $1 AND nonce = $2 AND ended_at IS NULL AND parked_at IS NULL";
    // Ended or not: the runner of a nonce does not change.
    Org Read BY_NONCE = "SELECT org_id, deployment_id, step_id, number, runner, nonce, renewal, lost_ms FROM attempts
        WHERE org_id = $1 AND nonce = $2";
    // Cancellation was requested, and the deployment has not ended yet.
    Instance Read CANCELLING = "SELECT org_id, id, environment_id FROM (SELECT org_id, id, environment_id, granted_at,
            ROW_NUMBER() OVER (PARTITION BY org_id ORDER BY granted_at, id) AS place
          FROM deployments WHERE environment_id IS NOT NULL AND granted_at IS NOT NULL AND finished_at IS NULL
            AND status = 'cancelling') AS ranked
        WHERE place <= $1 ORDER BY place, granted_at, id LIMIT $2";
    // Started by a version that had no runs.
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
    // A deployment that finished before `$4` cannot have entered the stage since then.
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

/// A deployment with a step that may be granted to a runner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ready {
    pub org: OrgId,
    pub deployment: DeploymentId,
    pub ready_at: Timestamp,
    pub version: i64,
}

/// Ready deployments, the longest waiting first. `after` is the last one of the previous page.
pub fn ready(
    db: &mut impl Read,
    now: Timestamp,
    after: Option<(Timestamp, DeploymentId)>,
    limit: i64,
) -> Result<Vec<Ready>, StoreError> {
    let (from, last) = match after {
        Some((at, id)) => (at, text(id)),
        None => (Timestamp::from_micros(0), "".into()),
    };
    let read = |row: &Row| {
        Ok(Ready {
            org: row.parse(0)?,
            deployment: row.parse(1)?,
            ready_at: row.time(2)?,
            version: row.int(3)?,
        })
    };
    db.rows(&READY, &[now.into(), from.into(), last, limit.into()])?.iter().map(read).collect()
}

/// When the next deployment becomes ready, after `now`.
pub fn next_ready(db: &mut impl Read, now: Timestamp) -> Result<Option<Timestamp>, StoreError> {
    let row = db.row(&NEXT_READY, &[now.into()])?;
    row.map_or(Ok(None), |row| row.maybe(0, Row::time))
}

/// An attempt that may be running.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Live {
    pub org: OrgId,
    pub deployment: DeploymentId,
    pub step: StepRunId,
    pub number: u32,
    pub runner: String,
    pub nonce: String,
    /// Incremented by every heartbeat.
    pub renewal: i64,
    /// Milliseconds without a heartbeat after which the attempt is lost; `None` if unknown.
    pub lost_ms: Option<i64>,
}

pub fn live(db: &mut impl Read, limit: i64) -> Result<Vec<Live>, StoreError> {
    db.rows(&LIVE, &[limit.into()])?.iter().map(one_live).collect()
}

/// Live attempts of one runner.
pub fn live_of(db: &mut impl Read, runner: &str, limit: i64) -> Result<Vec<Live>, StoreError> {
    db.rows(&LIVE_OF, &[runner.into(), limit.into()])?.iter().map(one_live).collect()
}

/// The live attempt with this nonce.
pub fn live_by_nonce(db: &mut impl Read, nonce: &str) -> Result<Option<Live>, StoreError> {
    db.row(&LIVE_BY_NONCE, &[nonce.into()])?.as_ref().map(one_live).transpose()
}

/// The attempt with this nonce, live or ended. Tries the small index of live attempts first, which nearly always has
/// it.
pub fn by_nonce(db: &mut impl Read, nonce: &str) -> Result<Option<Live>, StoreError> {
    if let Some(live) = live_by_nonce(db, nonce)? {
        return Ok(Some(live));
    }
    db.row(&BY_NONCE, &[nonce.into()])?.as_ref().map(one_live).transpose()
}

fn one_live(row: &Row) -> Result<Live, StoreError> {
    Ok(Live {
        org: row.parse(0)?,
        deployment: row.parse(1)?,
        step: row.parse(2)?,
        number: u32::try_from(row.int(3)?).unwrap_or(u32::MAX),
        runner: row.text(4)?.to_owned(),
        nonce: row.text(5)?.to_owned(),
        renewal: row.int(6)?,
        lost_ms: row.maybe(7, Row::int)?,
    })
}

type InEnvironment = (OrgId, DeploymentId, EnvironmentId);

/// Cancelling deployments to environments, a share of the batch for each organization.
pub fn cancelling(db: &mut impl Read, batch: Batch) -> Result<Vec<InEnvironment>, StoreError> {
    db.rows(&CANCELLING, &[batch.share.into(), batch.total.into()])?.iter().map(triple).collect()
}

/// Deployments to environments that have no run, so that no server can continue them.
pub fn without_run(db: &mut impl Read, limit: i64) -> Result<Vec<InEnvironment>, StoreError> {
    db.rows(&WITHOUT_RUN, &[limit.into()])?.iter().map(triple).collect()
}

/// Queued deployments through stages, oldest first, a share of the batch for each organization.
pub fn to_plan(db: &mut impl Read, batch: Batch) -> Result<Vec<(OrgId, DeploymentId)>, StoreError> {
    db.rows(&TO_PLAN, &[batch.share.into(), batch.total.into()])?.iter().map(pair).collect()
}

/// Deployments that wait to enter a stage, with their creation times, oldest first.
pub fn queued(
    db: &mut impl Read,
    after: Option<(Timestamp, DeploymentId)>,
    limit: i64,
) -> Result<Vec<(OrgId, DeploymentId, Timestamp)>, StoreError> {
    let (at, id) = after.map_or((i64::MIN, String::new()), |(at, id)| (at.as_micros(), id.to_string()));
    let read = |row: &Row| Ok((row.parse(0)?, row.parse(1)?, row.time(2)?));
    db.rows(&QUEUED, &[at.into(), id.into(), limit.into()])?.iter().map(read).collect()
}

/// Deployments in which a soak has ended or a polling step has timed out.
pub fn waking(
    db: &mut impl Read,
    now: Timestamp,
    limit: i64,
) -> Result<Vec<(OrgId, DeploymentId)>, StoreError> {
    db.rows(&WAKING, &[now.into(), limit.into()])?.iter().map(pair).collect()
}

/// A pipeline's other unfinished deployments, with their status in a stage.
pub fn contenders(
    db: &mut impl Read,
    pipeline: PipelineId,
    stage: &str,
    without: DeploymentId,
) -> Result<Vec<Contender>, StoreError> {
    let mut found = Vec::new();
    for row in db.rows(&CONTENDERS, &[text(pipeline)])? {
        let deployment = row.parse(0)?;
        let stages: Vec<StageRun> = row.json(2)?;
        let status = stages.iter().find(|it| it.name == stage).map_or(StageStatus::Pending, |it| it.status);
        if deployment != without {
            let is_rollback = row.json::<Trigger>(3)?.rollback_of().is_some();
            found.push(Contender { deployment, number: row.int(1)?, status, is_rollback });
        }
    }
    Ok(found)
}

/// The number of the deployment that entered a stage last, if that was after `of` did. Compares times, because an older
/// deployment may enter after a newer one. `stages` are the stages of `of`; at most `limit` deployments are compared.
pub fn entered_since(
    db: &mut impl Read,
    of: &StagesDeployment,
    stages: &[StageRun],
    stage: &str,
    limit: i64,
) -> Result<Option<i64>, StoreError> {
    let own = stages.iter().find(|it| it.name == stage);
    // Without a start the deployment never entered the stage.
    let Some(since) = own.and_then(|it| it.started_at.or(it.finished_at)) else { return Ok(None) };
    let mut last = (since, of.number);
    for row in db.rows(&ENTERED, &[text(of.pipeline), text(of.id), since.into(), limit.into()])? {
        let stages: Vec<StageRun> = row.json(1)?;
        let entered = stages.iter().find(|it| it.name == stage && it.tries > 0).and_then(|it| it.started_at);
        if let Some(at) = entered {
            last = last.max((at, row.int(0)?));
        }
    }
    Ok(Some(last.1).filter(|number| *number != of.number))
}

fn pair(row: &Row) -> Result<(OrgId, DeploymentId), StoreError> {
    Ok((row.parse(0)?, row.parse(1)?))
}

fn triple(row: &Row) -> Result<InEnvironment, StoreError> {
    Ok((row.parse(0)?, row.parse(1)?, row.parse(2)?))
}
