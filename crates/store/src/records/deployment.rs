//! Deployments.

use berth_core::deployment::{Attempt, Deployment, Status, Work};
use berth_core::environment::fence::Fence;
use berth_core::id::{DeploymentId, EnvironmentId};

use crate::error::StoreError;
use crate::sql::statements;
use crate::sql::value::{Row, text, to_json};
use crate::tx::{Read, Tx};

statements! {
    Org Read UNFINISHED = "SELECT id, number, pipeline_id, environment_id, stage, definition_hash, session_id, fence,
          commit_id, requested_by, overrides_drain, status, runner, nonce, granted_at, cancel, failure, superseded_by,
          created_at, started_at, finished_at, resolved_commit, reason, retry_of
        FROM deployments WHERE org_id = $1 AND environment_id = $2 AND finished_at IS NULL ORDER BY number";
    Org Read BY_ID = "SELECT id, number, pipeline_id, environment_id, stage, definition_hash, session_id, fence,
          commit_id, requested_by, overrides_drain, status, runner, nonce, granted_at, cancel, failure, superseded_by,
          created_at, started_at, finished_at, resolved_commit, reason, retry_of
        FROM deployments WHERE org_id = $1 AND id = $2";
    // What has ended stays as it ended.
    Org Write PUT = "INSERT INTO deployments (org_id, id, number, pipeline_id, environment_id, stage, definition_hash,
          session_id, fence, commit_id, requested_by, overrides_drain, status, runner, nonce, granted_at, cancel,
          failure, superseded_by, created_at, started_at, finished_at, reason, retry_of)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23,
          $24)
        ON CONFLICT (org_id, id) DO UPDATE SET status = excluded.status,
          overrides_drain = excluded.overrides_drain, runner = excluded.runner,
          nonce = excluded.nonce, granted_at = excluded.granted_at, cancel = excluded.cancel,
          failure = excluded.failure, superseded_by = excluded.superseded_by, started_at = excluded.started_at,
          finished_at = excluded.finished_at
        WHERE deployments.finished_at IS NULL";
    Org Upkeep RESOLVED = "UPDATE deployments SET resolved_commit = $3 WHERE org_id = $1 AND id = $2";
}

pub(crate) fn read(row: &Row) -> Result<Deployment, StoreError> {
    let work = match row.maybe(6, Row::parse)? {
        Some(session) => Work::Session(session),
        None => Work::Reset,
    };
    Ok(Deployment {
        id: row.parse(0)?,
        number: row.int(1)?,
        pipeline: row.parse(2)?,
        environment: row.parse(3)?,
        stage: row.name(4)?,
        definition_hash: row.text(5)?.to_owned(),
        work,
        fence: Fence::from_number(row.int(7)?),
        commit: row.name(8)?,
        resolved_commit: row.maybe(21, Row::text)?.map(str::to_owned),
        context: row.maybe(22, Row::name)?,
        requested_by: row.json(9)?,
        retry_of: row.maybe(23, Row::parse)?,
        overrides_drain: row.maybe(10, Row::name)?,
        status: status(row)?,
        created_at: row.time(18)?,
        started_at: row.maybe(19, Row::time)?,
        finished_at: row.maybe(20, Row::time)?,
    })
}

fn status(row: &Row) -> Result<Status, StoreError> {
    let attempt = || {
        Ok::<_, StoreError>(Attempt {
            runner: row.text(12)?.to_owned(),
            nonce: row.text(13)?.to_owned(),
            granted_at: row.time(14)?,
        })
    };
    Ok(match row.text(11)? {
        "queued" => Status::Queued,
        "running" => Status::Running(attempt()?),
        "cancelling" => Status::Cancelling { attempt: attempt()?, cancel: row.json(15)? },
        "succeeded" => Status::Succeeded,
        "failed" => Status::Failed(row.json(16)?),
        "cancelled" => Status::Cancelled(row.json(15)?),
        "superseded" => Status::Superseded { by: row.parse(17)? },
        other => return Err(StoreError::Bug(format!("unknown status {other}"))),
    })
}

/// In the order in which they were asked for.
pub(crate) fn unfinished_in(
    db: &mut impl Read,
    environment: EnvironmentId,
) -> Result<Vec<Deployment>, StoreError> {
    db.rows(&UNFINISHED, &[text(environment)])?.iter().map(read).collect()
}

pub fn by_id(db: &mut impl Read, id: DeploymentId) -> Result<Option<Deployment>, StoreError> {
    db.row(&BY_ID, &[text(id)])?.as_ref().map(read).transpose()
}

pub(crate) fn put(tx: &mut Tx<'_>, it: &Deployment) -> Result<(), StoreError> {
    let session = match it.work {
        Work::Session(session) => Some(session),
        Work::Reset => None,
    };
    let (cancel, failure, superseded_by) = match &it.status {
        Status::Cancelling { cancel, .. } | Status::Cancelled(cancel) => (Some(cancel), None, None),
        Status::Failed(failure) => (None, Some(failure), None),
        Status::Superseded { by } => (None, None, Some(*by)),
        Status::Queued | Status::Running(_) | Status::Succeeded => (None, None, None),
    };
    let attempt = it.status.attempt();
    let params = [
        text(it.id),
        it.number.into(),
        text(it.pipeline),
        text(it.environment),
        text(&it.stage),
        it.definition_hash.as_str().into(),
        session.map(text).into(),
        it.fence.number().into(),
        text(&it.commit),
        to_json(&it.requested_by)?.into(),
        it.overrides_drain.as_ref().map(text).into(),
        it.status.as_str().into(),
        attempt.map(|attempt| attempt.runner.as_str()).into(),
        attempt.map(|attempt| attempt.nonce.as_str()).into(),
        attempt.map(|attempt| attempt.granted_at).into(),
        cancel.map(to_json).transpose()?.into(),
        failure.map(to_json).transpose()?.into(),
        superseded_by.map(text).into(),
        it.created_at.into(),
        it.started_at.into(),
        it.finished_at.into(),
        it.context.as_ref().map(text).into(),
        it.retry_of.map(text).into(),
    ];
    tx.execute_one(&PUT, &params)
}

/// The commit that its plan is made of.
pub fn resolve(tx: &mut Tx<'_>, id: DeploymentId, commit: &str) -> Result<(), StoreError> {
    tx.execute_one(&RESOLVED, &[text(id), commit.into()])
}
