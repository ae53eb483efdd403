//! Stages: their current deployment, and the deployments that ended in them.

use berth_core::deployment::stages::stage::{Past, Pause, Stage, StageEnd};
use berth_core::id::{DeploymentId, PipelineId};

use crate::error::StoreError;
use crate::sql::statements;
use crate::sql::value::{Row, text, to_json};
use crate::tx::{Read, Tx};

statements! {
    Org Read BY_NAME = "SELECT pipeline_id, name, version, deployment_id, since, paused_by, paused_at, pause_reason,
          rollback_id
        FROM stages WHERE org_id = $1 AND pipeline_id = $2 AND name = $3 {for_update}";
    Org Read OF_PIPELINE = "SELECT pipeline_id, name, version, deployment_id, since, paused_by, paused_at, pause_reason,
          rollback_id
        FROM stages WHERE org_id = $1 AND pipeline_id = $2 ORDER BY name";
    Org Write PUT = "INSERT INTO stages (org_id, pipeline_id, name, version, deployment_id, since, paused_by, paused_at,
          pause_reason, rollback_id)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
        ON CONFLICT (org_id, pipeline_id, name) DO UPDATE SET version = excluded.version,
          deployment_id = excluded.deployment_id, since = excluded.since, paused_by = excluded.paused_by,
          paused_at = excluded.paused_at, pause_reason = excluded.pause_reason, rollback_id = excluded.rollback_id
        WHERE stages.version = excluded.version - 1";
    Org Write PUT_END = "INSERT INTO stage_ends (org_id, pipeline_id, stage, deployment_id, tries, is_success, ended_at,
          origin_id, of_id, committed_at, is_last)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
    Org Read PAST = "SELECT e.pipeline_id, e.stage, e.deployment_id, e.tries, e.is_success, e.ended_at, e.origin_id,
          e.of_id, e.committed_at, e.is_last,
          (SELECT CAST(COUNT(*) AS BIGINT) FROM stage_ends r WHERE r.org_id = e.org_id AND r.pipeline_id = e.pipeline_id
            AND r.stage = e.stage AND r.of_id = e.deployment_id)
        FROM stage_ends e WHERE e.org_id = $1 AND e.pipeline_id = $2 AND e.stage = $3
        ORDER BY e.ended_at DESC, e.deployment_id DESC LIMIT $4";
    Org Read SUCCEEDED = "SELECT origin_id, is_last FROM stage_ends
        WHERE org_id = $1 AND pipeline_id = $2 AND stage = $3 AND deployment_id = $4 AND is_success = 1";
}

fn read(row: &Row) -> Result<Stage, StoreError> {
    let current = row.maybe(3, Row::parse)?.zip(row.maybe(4, Row::time)?);
    let pause = match row.maybe(8, Row::parse)? {
        None => None,
        Some(rollback) => {
            Some(Pause { by: row.json(5)?, at: row.time(6)?, reason: row.maybe(7, Row::name)?, rollback })
        }
    };
    Ok(Stage { pipeline: row.parse(0)?, name: row.text(1)?.to_owned(), version: row.int(2)?, current, pause })
}

/// The stage with this name. Without a row, a new one in which nothing has happened.
pub fn by_name(db: &mut impl Read, pipeline: PipelineId, name: &str) -> Result<Stage, StoreError> {
    let found = db.row(&BY_NAME, &[text(pipeline), name.into()])?.as_ref().map(read).transpose()?;
    Ok(found.unwrap_or_else(|| Stage::new(pipeline, name)))
}

/// Stages in which something has happened, including those that the definition no longer declares.
pub fn of_pipeline(db: &mut impl Read, pipeline: PipelineId) -> Result<Vec<Stage>, StoreError> {
    db.rows(&OF_PIPELINE, &[text(pipeline)])?.iter().map(read).collect()
}

pub(crate) fn put(tx: &mut Tx<'_>, it: &Stage) -> Result<(), StoreError> {
    let pause = it.pause.as_ref();
    let params = [
        text(it.pipeline),
        it.name.as_str().into(),
        it.version.into(),
        it.current.map(|(deployment, _)| text(deployment)).into(),
        it.current.map(|(_, since)| since).into(),
        pause.map(|pause| to_json(&pause.by)).transpose()?.into(),
        pause.map(|pause| pause.at).into(),
        pause.and_then(|pause| pause.reason.as_ref()).map(text).into(),
        pause.map(|pause| text(pause.rollback)).into(),
    ];
    tx.execute_one(&PUT, &params)
}

pub(crate) fn put_end(tx: &mut Tx<'_>, it: &StageEnd) -> Result<(), StoreError> {
    let params = [
        text(it.pipeline),
        it.stage.as_str().into(),
        text(it.deployment),
        i64::from(it.tries).into(),
        it.is_success.into(),
        it.at.into(),
        text(it.origin),
        it.of.map(text).into(),
        it.committed_at.into(),
        it.is_last.into(),
    ];
    tx.execute_one(&PUT_END, &params)
}

/// Reads the columns of a stage end, followed by the number of rollbacks of its deployment.
pub(crate) fn read_past(row: &Row) -> Result<Past, StoreError> {
    let end = StageEnd {
        pipeline: row.parse(0)?,
        stage: row.text(1)?.to_owned(),
        deployment: row.parse(2)?,
        tries: u32::try_from(row.int(3)?).unwrap_or(u32::MAX),
        is_success: row.int(4)? == 1,
        at: row.time(5)?,
        origin: row.parse(6)?,
        of: row.maybe(7, Row::parse)?,
        committed_at: row.maybe(8, Row::time)?,
        is_last: row.int(9)? == 1,
    };
    Ok(Past { end, is_taken_back: row.int(10)? > 0 })
}

/// Deployments that ended in a stage, newest first.
pub fn past(
    db: &mut impl Read,
    pipeline: PipelineId,
    stage: &str,
    limit: i64,
) -> Result<Vec<Past>, StoreError> {
    let rows = db.rows(&PAST, &[text(pipeline), stage.into(), limit.into()])?;
    rows.iter().map(read_past).collect()
}

/// The deployment whose plan `deployment` brought into a stage, and whether the stage is the pipeline's last. `None` if
/// `deployment` never succeeded there.
pub fn origin_of(
    db: &mut impl Read,
    pipeline: PipelineId,
    stage: &str,
    deployment: DeploymentId,
) -> Result<Option<(DeploymentId, bool)>, StoreError> {
    let params = [text(pipeline), stage.into(), text(deployment)];
    db.row(&SUCCEEDED, &params)?.map(|row| Ok((row.parse(0)?, row.int(1)? == 1))).transpose()
}
