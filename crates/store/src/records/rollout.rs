//! Rollouts: deployments that go through the stages of their pipeline.

use berth_core::id::{DeploymentId, PipelineId};
use berth_core::rollout::{Rollout, Status};

use crate::error::StoreError;
use crate::sql::statements;
use crate::sql::value::{Row, text, to_json};
use crate::tx::{Read, Tx};

statements! {
    Org Read BY_ID = "SELECT id, number, pipeline_id, definition_hash, commit_id, resolved_commit, cause_kind, reason,
          requested_by, status, cancel, failure, superseded_by, created_at, started_at, finished_at,
          bypass, retried_by
        FROM deployments WHERE org_id = $1 AND id = $2 AND environment_id IS NULL";
    Org Read IN_LINE = "SELECT id, number, pipeline_id, definition_hash, commit_id, resolved_commit, cause_kind, reason,
          requested_by, status, cancel, failure, superseded_by, created_at, started_at, finished_at,
          bypass, retried_by
        FROM deployments WHERE org_id = $1 AND pipeline_id = $2 AND environment_id IS NULL AND finished_at IS NULL
        ORDER BY number";
    Org Write PUT = "INSERT INTO deployments (org_id, id, number, pipeline_id, stage, definition_hash, commit_id,
          resolved_commit, cause_kind, reason, requested_by, status, cancel, failure, superseded_by, created_at,
          started_at, finished_at, bypass, retried_by)
        VALUES ($1, $2, $3, $4, '', $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)
        ON CONFLICT (org_id, id) DO UPDATE SET resolved_commit = excluded.resolved_commit, status = excluded.status,
          cancel = excluded.cancel, failure = excluded.failure, superseded_by = excluded.superseded_by,
          started_at = excluded.started_at, finished_at = excluded.finished_at,
          retried_by = excluded.retried_by";
    Org Read COUNT = "SELECT deployments FROM pipelines WHERE org_id = $1 AND id = $2 {for_update}";
    Org Upkeep COUNTED = "UPDATE pipelines SET deployments = $3 WHERE org_id = $1 AND id = $2";
}

pub(crate) fn read(row: &Row) -> Result<Rollout, StoreError> {
    let status = match row.text(9)? {
        "queued" => Status::Queued,
        "running" => Status::Running,
        "waiting" => Status::Waiting,
        "cancelling" => Status::Cancelling(row.json(10)?),
        "succeeded" => Status::Succeeded,
        "failed" => Status::Failed(row.json(11)?),
        "cancelled" => Status::Cancelled(row.json(10)?),
        "superseded" => Status::Superseded { by: row.parse(12)? },
        other => return Err(StoreError::Bug(format!("unknown status {other}"))),
    };
    Ok(Rollout {
        id: row.parse(0)?,
        number: row.int(1)?,
        pipeline: row.parse(2)?,
        definition_hash: row.text(3)?.to_owned(),
        commit: row.name(4)?,
        resolved_commit: row.maybe(5, Row::text)?.map(str::to_owned),
        trigger: row.json(6)?,
        reason: row.maybe(7, Row::name)?,
        requested_by: row.json(8)?,
        retried_by: row.maybe(17, Row::json)?.unwrap_or_default(),
        bypass: row.maybe(16, Row::json)?,
        status,
        created_at: row.time(13)?,
        started_at: row.maybe(14, Row::time)?,
        finished_at: row.maybe(15, Row::time)?,
    })
}

pub fn by_id(db: &mut impl Read, id: DeploymentId) -> Result<Option<Rollout>, StoreError> {
    db.row(&BY_ID, &[text(id)])?.as_ref().map(read).transpose()
}

/// Those of a pipeline that have not ended, oldest first.
pub fn in_line(db: &mut impl Read, pipeline: PipelineId) -> Result<Vec<Rollout>, StoreError> {
    db.rows(&IN_LINE, &[text(pipeline)])?.iter().map(read).collect()
}

/// The number of the pipeline's next rollout, which is taken with this.
pub fn next_number(tx: &mut Tx<'_>, pipeline: PipelineId) -> Result<i64, StoreError> {
    let row = tx.row(&COUNT, &[text(pipeline)])?;
    let next = row.ok_or_else(|| StoreError::Bug("a rollout without a pipeline".into()))?.int(0)? + 1;
    tx.execute_one(&COUNTED, &[text(pipeline), next.into()])?;
    Ok(next)
}

pub(crate) fn put(tx: &mut Tx<'_>, it: &Rollout) -> Result<(), StoreError> {
    let (cancel, failure, superseded_by) = match &it.status {
        Status::Cancelling(cancel) | Status::Cancelled(cancel) => (Some(cancel), None, None),
        Status::Failed(failure) => (None, Some(failure), None),
        Status::Superseded { by } => (None, None, Some(*by)),
        Status::Queued | Status::Running | Status::Waiting | Status::Succeeded => (None, None, None),
    };
    let params = [
        text(it.id),
        it.number.into(),
        text(it.pipeline),
        it.definition_hash.as_str().into(),
        text(&it.commit),
        it.resolved_commit.as_deref().into(),
        to_json(&it.trigger)?.into(),
        it.reason.as_ref().map(text).into(),
        to_json(&it.requested_by)?.into(),
        it.status.as_str().into(),
        cancel.map(to_json).transpose()?.into(),
        failure.map(to_json).transpose()?.into(),
        superseded_by.map(text).into(),
        it.created_at.into(),
        it.started_at.into(),
        it.finished_at.into(),
        it.bypass.as_ref().map(to_json).transpose()?.into(),
        (!it.retried_by.is_empty()).then(|| to_json(&it.retried_by)).transpose()?.into(),
    ];
    tx.execute_one(&PUT, &params)
}
