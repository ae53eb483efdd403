//! Deployments to environments and through stages, in one table.

use berth_core::deployment::{
    Deployment, DeploymentAttempt, DeploymentStatus, EnvironmentDeployment, EnvironmentTarget,
    StagesDeployment, StagesTarget, Target, Work,
};
use berth_core::environment::fence::Fence;
use berth_core::id::{DeploymentId, EnvironmentId, PipelineId, SessionId};

use crate::error::StoreError;
use crate::sql::statements;
use crate::sql::value::{Row, text, to_json};
use crate::tx::{Read, Tx};

/// The columns that [`read`] expects, in its order.
macro_rules! select {
    ($($rest:tt)+) => {
        concat!(
            "SELECT id, number, pipeline_id, environment_id, stage, definition_hash, session_id, fence, commit_id,
               requested_by, overrides_drain, status, runner, nonce, granted_at, cancel, failure, superseded_by,
               created_at, started_at, finished_at, resolved_commit, reason, retry_of, cause_kind, bypass, retried_by
             FROM deployments d WHERE org_id = $1 AND ",
            $($rest)+
        )
    };
}
pub(crate) use select;

statements! {
    Org Read BY_ID = select!("id = $2");
    Org Read UNFINISHED_OF_ENVIRONMENT = select!("environment_id = $2 AND finished_at IS NULL ORDER BY number");
    Org Read OF_SESSION = select!("session_id = $2 ORDER BY number DESC LIMIT $3");
    Org Read UNFINISHED_OF_PIPELINE =
        select!("pipeline_id = $2 AND environment_id IS NULL AND finished_at IS NULL ORDER BY number");
    // A finished deployment does not change, except that a retry reopens one through stages.
    Org Write PUT = "INSERT INTO deployments (org_id, id, number, pipeline_id, environment_id, stage, definition_hash,
          session_id, fence, commit_id, requested_by, overrides_drain, status, runner, nonce, granted_at, cancel,
          failure, superseded_by, created_at, started_at, finished_at, resolved_commit, reason, retry_of, cause_kind,
          bypass, retried_by)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23,
          $24, $25, $26, $27, $28)
        ON CONFLICT (org_id, id) DO UPDATE SET status = excluded.status,
          overrides_drain = excluded.overrides_drain, runner = excluded.runner,
          nonce = excluded.nonce, granted_at = excluded.granted_at, cancel = excluded.cancel,
          failure = excluded.failure, superseded_by = excluded.superseded_by, started_at = excluded.started_at,
          finished_at = excluded.finished_at, retried_by = excluded.retried_by,
          resolved_commit = COALESCE(excluded.resolved_commit, deployments.resolved_commit)
        WHERE deployments.finished_at IS NULL OR deployments.environment_id IS NULL";
    Org Upkeep SET_RESOLVED_COMMIT = "UPDATE deployments SET resolved_commit = $3 WHERE org_id = $1 AND id = $2";
    Org Read LAST_NUMBER = "SELECT deployments FROM pipelines WHERE org_id = $1 AND id = $2 {for_update}";
    Org Upkeep SET_LAST_NUMBER = "UPDATE pipelines SET deployments = $3 WHERE org_id = $1 AND id = $2";
}

pub(crate) fn read(row: &Row) -> Result<Deployment, StoreError> {
    let target = match row.maybe(3, Row::parse)? {
        Some(environment) => Target::Environment(read_environment_target(row, environment)?),
        None => Target::Stages(StagesTarget {
            trigger: row.json(24)?,
            retried_by: row.maybe(26, Row::json)?.unwrap_or_default(),
            bypass: row.maybe(25, Row::json)?,
        }),
    };
    Ok(Deployment {
        id: row.parse(0)?,
        number: row.int(1)?,
        pipeline: row.parse(2)?,
        definition_hash: row.text(5)?.to_owned(),
        commit: row.name(8)?,
        resolved_commit: row.maybe(21, Row::text)?.map(str::to_owned),
        reason: row.maybe(22, Row::name)?,
        requested_by: row.json(9)?,
        status: read_status(row)?,
        created_at: row.time(18)?,
        started_at: row.maybe(19, Row::time)?,
        finished_at: row.maybe(20, Row::time)?,
        target,
    })
}

fn read_environment_target(row: &Row, environment: EnvironmentId) -> Result<EnvironmentTarget, StoreError> {
    let attempt = match row.maybe(13, Row::text)? {
        Some(nonce) => Some(DeploymentAttempt {
            runner: row.text(12)?.to_owned(),
            nonce: nonce.to_owned(),
            granted_at: row.time(14)?,
        }),
        None => None,
    };
    Ok(EnvironmentTarget {
        environment,
        name: row.name(4)?,
        work: row.maybe(6, Row::parse)?.map_or(Work::Reset, Work::Session),
        fence: Fence::from_number(row.int(7)?),
        attempt,
        retry_of: row.maybe(23, Row::parse)?,
        overrides_drain: row.maybe(10, Row::name)?,
    })
}

fn read_status(row: &Row) -> Result<DeploymentStatus, StoreError> {
    Ok(match row.text(11)? {
        "queued" => DeploymentStatus::Queued,
        "running" => DeploymentStatus::Running,
        "waiting" => DeploymentStatus::Waiting,
        "cancelling" => DeploymentStatus::Cancelling(row.json(15)?),
        "succeeded" => DeploymentStatus::Succeeded,
        "failed" => DeploymentStatus::Failed(row.json(16)?),
        "cancelled" => DeploymentStatus::Cancelled(row.json(15)?),
        "superseded" => DeploymentStatus::Superseded { by: row.parse(17)? },
        other => return Err(StoreError::Bug(format!("unknown status {other}"))),
    })
}

fn read_environment(row: &Row) -> Result<EnvironmentDeployment, StoreError> {
    let wrong = |_| StoreError::Bug("expected a deployment into an environment".into());
    read(row)?.into_environment().map_err(wrong)
}

fn read_stages(row: &Row) -> Result<StagesDeployment, StoreError> {
    let wrong = || StoreError::Bug("expected a deployment through stages".into());
    read(row)?.into_environment().err().map(|found| *found).ok_or_else(wrong)
}

pub fn by_id(db: &mut impl Read, id: DeploymentId) -> Result<Option<Deployment>, StoreError> {
    db.row(&BY_ID, &[text(id)])?.as_ref().map(read).transpose()
}

pub fn stages_by_id(db: &mut impl Read, id: DeploymentId) -> Result<Option<StagesDeployment>, StoreError> {
    Ok(by_id(db, id)?.and_then(|it| it.into_environment().err()).map(|found| *found))
}

/// Unfinished deployments of an environment, oldest first.
pub(crate) fn unfinished_of_environment(
    db: &mut impl Read,
    environment: EnvironmentId,
) -> Result<Vec<EnvironmentDeployment>, StoreError> {
    db.rows(&UNFINISHED_OF_ENVIRONMENT, &[text(environment)])?.iter().map(read_environment).collect()
}

/// The deployments of a session, newest first.
pub fn list_of_session(
    db: &mut impl Read,
    session: SessionId,
    limit: i64,
) -> Result<Vec<EnvironmentDeployment>, StoreError> {
    db.rows(&OF_SESSION, &[text(session), limit.into()])?.iter().map(read_environment).collect()
}

/// Unfinished deployments through the stages of a pipeline, oldest first.
pub fn unfinished_of_pipeline(
    db: &mut impl Read,
    pipeline: PipelineId,
) -> Result<Vec<StagesDeployment>, StoreError> {
    db.rows(&UNFINISHED_OF_PIPELINE, &[text(pipeline)])?.iter().map(read_stages).collect()
}

/// Allocates the number of the pipeline's next deployment.
pub fn next_number(tx: &mut Tx<'_>, pipeline: PipelineId) -> Result<i64, StoreError> {
    let row = tx.row(&LAST_NUMBER, &[text(pipeline)])?;
    let next = row.ok_or_else(|| StoreError::Bug("a deployment without a pipeline".into()))?.int(0)? + 1;
    tx.execute_one(&SET_LAST_NUMBER, &[text(pipeline), next.into()])?;
    Ok(next)
}

pub(crate) fn put_environment(tx: &mut Tx<'_>, it: &EnvironmentDeployment) -> Result<(), StoreError> {
    put(tx, it, Some(&it.target), None)
}

pub(crate) fn put_stages(tx: &mut Tx<'_>, it: &StagesDeployment) -> Result<(), StoreError> {
    put(tx, it, None, Some(&it.target))
}

fn put<T>(
    tx: &mut Tx<'_>,
    it: &Deployment<T>,
    environment: Option<&EnvironmentTarget>,
    stages: Option<&StagesTarget>,
) -> Result<(), StoreError> {
    let session = environment.and_then(|target| match target.work {
        Work::Session(session) => Some(session),
        Work::Reset => None,
    });
    let attempt = environment.and_then(|target| target.attempt.as_ref());
    let retried_by = stages.map(|target| &target.retried_by).filter(|people| !people.is_empty());
    let params = [
        text(it.id),
        it.number.into(),
        text(it.pipeline),
        environment.map(|target| text(target.environment)).into(),
        environment.map_or_else(String::new, |target| target.name.to_string()).into(),
        it.definition_hash.as_str().into(),
        session.map(text).into(),
        environment.map(|target| target.fence.number()).into(),
        text(&it.commit),
        to_json(&it.requested_by)?.into(),
        environment.and_then(|target| target.overrides_drain.as_ref()).map(text).into(),
        it.status.as_str().into(),
        attempt.map(|attempt| attempt.runner.as_str()).into(),
        attempt.map(|attempt| attempt.nonce.as_str()).into(),
        attempt.map(|attempt| attempt.granted_at).into(),
        it.status.cancel().map(to_json).transpose()?.into(),
        it.status.failure().map(to_json).transpose()?.into(),
        it.status.superseded_by().map(text).into(),
        it.created_at.into(),
        it.started_at.into(),
        it.finished_at.into(),
        it.resolved_commit.as_deref().into(),
        it.reason.as_ref().map(text).into(),
        environment.and_then(|target| target.retry_of).map(text).into(),
        stages.map(|target| to_json(&target.trigger)).transpose()?.into(),
        stages.and_then(|target| target.bypass.as_ref()).map(to_json).transpose()?.into(),
        retried_by.map(to_json).transpose()?.into(),
    ];
    tx.execute_one(&PUT, &params)
}

/// Stores the commit hash that the deployment's plan was made from.
pub fn set_resolved_commit(tx: &mut Tx<'_>, id: DeploymentId, commit: &str) -> Result<(), StoreError> {
    tx.execute_one(&SET_RESOLVED_COMMIT, &[text(id), commit.into()])
}
