//! Deployments to environments and deployments through stages, in one table.

use std::collections::BTreeSet;

use berth_core::deployment::{
    CancelRequest, Deployment, DeploymentAttempt, DeploymentPurpose, DeploymentState, DeploymentTarget,
    EnvironmentDeployment, EnvironmentTarget, ExecutionFailure, GateBypass, StagesDeployment, StagesTarget,
    StartTrigger,
};
use berth_core::environment::fence::Fence;
use berth_core::event::Actor;
use berth_core::id::{DeploymentId, EnvironmentId, PipelineId, SessionId, UserId};
use berth_core::name::{CommitId, Reason};
use berth_core::time::Timestamp;

use crate::error::StoreError;
use crate::sql::value::{SqlValue, text};
use crate::sql::{
    FromRow, RowReader, TableRow as _, ToParams, json_columns, sparse_json_columns, statements, table,
};
use crate::tx::{StoreRead, Tx};

/// A row of the table. A deployment goes either to an environment or through stages; the columns for the other kind are
/// NULL.
pub(super) struct DeploymentRow {
    id: DeploymentId,
    number: i64,
    pipeline: PipelineId,
    definition_hash: String,
    commit: CommitId,
    resolved_commit: Option<String>,
    reason: Option<Reason>,
    requested_by: Actor,
    status: DeploymentState,
    created_at: Timestamp,
    started_at: Option<Timestamp>,
    finished_at: Option<Timestamp>,
    environment: Option<EnvironmentId>,
    /// The name of the environment. Empty for a deployment through stages.
    stage: String,
    session: Option<SessionId>,
    fence: Option<Fence>,
    attempt: Option<DeploymentAttempt>,
    retry_of: Option<DeploymentId>,
    overrides_drain: Option<Reason>,
    is_untrusted: bool,
    trigger: Option<StartTrigger>,
    retried_by: BTreeSet<UserId>,
    bypass: Option<GateBypass>,
}

table!(Org DeploymentRow in deployments {
    key: [id],
    update: [
        status: (status, cancel, failure, superseded_by), started_at, finished_at, overrides_drain,
        attempt: (runner, nonce, granted_at), retried_by,
    ],
    insert: [
        number, pipeline: pipeline_id, environment: environment_id, stage, definition_hash, session: session_id, fence,
        commit: commit_id, requested_by, created_at, resolved_commit, reason, retry_of, trigger: cause_kind, bypass,
        is_untrusted,
    ],
});
json_columns!(GateBypass, CancelRequest, ExecutionFailure, StartTrigger);
sparse_json_columns!(BTreeSet<UserId>);

statements! {
    Org Read BY_ID => DeploymentRow::TABLE.select("WHERE org_id = $1 AND id = $2");
    Org Read UNFINISHED_OF_ENVIRONMENT => DeploymentRow::TABLE.select(
        "WHERE org_id = $1 AND environment_id = $2 AND finished_at IS NULL ORDER BY number");
    Org Read OF_SESSION => DeploymentRow::TABLE.select(
        "WHERE org_id = $1 AND session_id = $2 ORDER BY number DESC LIMIT $3");
    Org Read UNFINISHED_OF_PIPELINE => DeploymentRow::TABLE.select(
        "WHERE org_id = $1 AND pipeline_id = $2 AND environment_id IS NULL AND finished_at IS NULL ORDER BY number");
    Org Read LATEST_OF_PIPELINE => DeploymentRow::TABLE.select(
        "WHERE org_id = $1 AND pipeline_id = $2 AND environment_id IS NULL ORDER BY id DESC LIMIT 1");
    // A finished deployment never changes, with one exception: a retry reopens a deployment through stages.
    Org Write PUT => DeploymentRow::TABLE.upsert(
        ", resolved_commit = COALESCE(excluded.resolved_commit, deployments.resolved_commit)
        WHERE deployments.finished_at IS NULL OR deployments.environment_id IS NULL");
    Org Upkeep SET_RESOLVED_COMMIT = "UPDATE deployments SET resolved_commit = $3 WHERE org_id = $1 AND id = $2";
    Org Read LAST_NUMBER = "SELECT deployments FROM pipelines WHERE org_id = $1 AND id = $2 {for_update}";
    Org Upkeep SET_LAST_NUMBER = "UPDATE pipelines SET deployments = $3 WHERE org_id = $1 AND id = $2";
}

impl FromRow for DeploymentState {
    fn from_row(row: &mut RowReader) -> Result<Self, StoreError> {
        let (status, cancel, failure, superseded_by): (
            String,
            Option<CancelRequest>,
            Option<ExecutionFailure>,
            _,
        ) = row.take()?;
        let without = |detail: &str| StoreError::Bug(format!("a {status} deployment without {detail}"));
        Ok(match status.as_str() {
            "queued" => DeploymentState::Queued,
            "running" => DeploymentState::Running,
            "waiting" => DeploymentState::Waiting,
            "cancelling" => DeploymentState::Cancelling(cancel.ok_or_else(|| without("its cancellation"))?),
            "succeeded" => DeploymentState::Succeeded,
            "failed" => DeploymentState::Failed(failure.ok_or_else(|| without("its failure"))?),
            "cancelled" => DeploymentState::Cancelled(cancel.ok_or_else(|| without("its cancellation"))?),
            "superseded" => {
                let by: Option<DeploymentId> = superseded_by;
                DeploymentState::Superseded { by: by.ok_or_else(|| without("its successor"))? }
            }
            unknown => return Err(StoreError::Bug(format!("unknown status {unknown}"))),
        })
    }
}

impl ToParams for DeploymentState {
    fn to_params(&self, params: &mut Vec<SqlValue>) -> Result<(), StoreError> {
        (self.as_str(), self.cancel(), self.failure(), self.superseded_by()).to_params(params)
    }
}

impl FromRow for Option<DeploymentAttempt> {
    fn from_row(row: &mut RowReader) -> Result<Self, StoreError> {
        let (runner, nonce, granted_at): (Option<_>, Option<_>, Option<_>) = row.take()?;
        let values = runner.zip(nonce).zip(granted_at);
        Ok(values.map(|((runner, nonce), granted_at)| DeploymentAttempt { runner, nonce, granted_at }))
    }
}

impl ToParams for Option<DeploymentAttempt> {
    fn to_params(&self, params: &mut Vec<SqlValue>) -> Result<(), StoreError> {
        let attempt = self.as_ref();
        let (runner, nonce) = (attempt.map(|it| &it.runner), attempt.map(|it| &it.nonce));
        (runner, nonce, attempt.map(|it| it.granted_at)).to_params(params)
    }
}

impl DeploymentRow {
    fn from_deployment<T: Clone + Into<DeploymentTarget>>(it: &Deployment<T>) -> Self {
        let mut row = Self {
            id: it.id,
            number: it.number,
            pipeline: it.pipeline,
            definition_hash: it.definition_hash.clone(),
            commit: it.commit.clone(),
            resolved_commit: it.resolved_commit.clone(),
            reason: it.reason.clone(),
            requested_by: it.requested_by.clone(),
            status: it.status.clone(),
            created_at: it.created_at,
            started_at: it.started_at,
            finished_at: it.finished_at,
            environment: None,
            stage: String::new(),
            session: None,
            fence: None,
            attempt: None,
            retry_of: None,
            overrides_drain: None,
            is_untrusted: false,
            trigger: None,
            retried_by: BTreeSet::new(),
            bypass: None,
        };
        match it.target.clone().into() {
            DeploymentTarget::Environment(target) => row.set_environment(target),
            DeploymentTarget::Stages(StagesTarget { trigger, retried_by, bypass }) => {
                row.trigger = Some(trigger);
                row.retried_by = retried_by;
                row.bypass = bypass;
            }
        }
        row
    }

    fn set_environment(&mut self, target: EnvironmentTarget) {
        self.environment = Some(target.environment);
        self.stage = target.name.to_string();
        self.session = match target.purpose {
            DeploymentPurpose::Session(session) => Some(session),
            DeploymentPurpose::Reset => None,
        };
        self.fence = Some(target.fence);
        self.attempt = target.attempt;
        self.retry_of = target.retry_of;
        self.overrides_drain = target.overrides_drain;
        self.is_untrusted = target.is_untrusted;
    }

    pub(super) fn into_deployment(self) -> Result<Deployment, StoreError> {
        let incomplete = || StoreError::Bug("a deployment without the columns of its target".into());
        let target = match self.environment {
            Some(environment) => DeploymentTarget::Environment(EnvironmentTarget {
                environment,
                name: self.stage.try_into().map_err(|_| incomplete())?,
                purpose: self.session.map_or(DeploymentPurpose::Reset, DeploymentPurpose::Session),
                fence: self.fence.ok_or_else(incomplete)?,
                attempt: self.attempt,
                retry_of: self.retry_of,
                overrides_drain: self.overrides_drain,
                is_untrusted: self.is_untrusted,
            }),
            None => DeploymentTarget::Stages(StagesTarget {
                trigger: self.trigger.ok_or_else(incomplete)?,
                retried_by: self.retried_by,
                bypass: self.bypass,
            }),
        };
        Ok(Deployment {
            id: self.id,
            number: self.number,
            pipeline: self.pipeline,
            definition_hash: self.definition_hash,
            commit: self.commit,
            resolved_commit: self.resolved_commit,
            reason: self.reason,
            requested_by: self.requested_by,
            status: self.status,
            created_at: self.created_at,
            started_at: self.started_at,
            finished_at: self.finished_at,
            target,
        })
    }

    fn into_environment(self) -> Result<EnvironmentDeployment, StoreError> {
        let wrong = |_| StoreError::Bug("expected a deployment to an environment".into());
        self.into_deployment()?.into_environment().map_err(wrong)
    }

    fn into_stages(self) -> Result<StagesDeployment, StoreError> {
        match self.into_deployment()?.into_environment() {
            Err(deployment) => Ok(*deployment),
            Ok(_) => Err(StoreError::Bug("expected a deployment through stages".into())),
        }
    }
}

pub fn by_id(db: &mut impl StoreRead, id: DeploymentId) -> Result<Option<Deployment>, StoreError> {
    db.fetch_optional(&BY_ID, &[text(id)])?.map(DeploymentRow::into_deployment).transpose()
}

/// Finds a deployment through stages. Returns `None` if the id belongs to a deployment to an environment.
pub fn stages_by_id(
    db: &mut impl StoreRead,
    id: DeploymentId,
) -> Result<Option<StagesDeployment>, StoreError> {
    Ok(by_id(db, id)?.and_then(|it| it.into_environment().err()).map(|found| *found))
}

/// Unfinished deployments to an environment, oldest first.
pub(crate) fn list_unfinished_of_environment(
    db: &mut impl StoreRead,
    environment: EnvironmentId,
) -> Result<Vec<EnvironmentDeployment>, StoreError> {
    let rows: Vec<DeploymentRow> = db.fetch_all(&UNFINISHED_OF_ENVIRONMENT, &[text(environment)])?;
    rows.into_iter().map(DeploymentRow::into_environment).collect()
}

/// The deployments of a session, newest first.
pub fn list_of_session(
    db: &mut impl StoreRead,
    session: SessionId,
    limit: i64,
) -> Result<Vec<EnvironmentDeployment>, StoreError> {
    let rows: Vec<DeploymentRow> = db.fetch_all(&OF_SESSION, &[text(session), limit.into()])?;
    rows.into_iter().map(DeploymentRow::into_environment).collect()
}

/// Unfinished deployments through the stages of a pipeline, oldest first.
pub fn list_unfinished_of_pipeline(
    db: &mut impl StoreRead,
    pipeline: PipelineId,
) -> Result<Vec<StagesDeployment>, StoreError> {
    let rows: Vec<DeploymentRow> = db.fetch_all(&UNFINISHED_OF_PIPELINE, &[text(pipeline)])?;
    rows.into_iter().map(DeploymentRow::into_stages).collect()
}

/// The newest deployment through the stages of a pipeline.
pub fn find_latest_of_pipeline(
    db: &mut impl StoreRead,
    pipeline: PipelineId,
) -> Result<Option<Deployment>, StoreError> {
    db.fetch_optional(&LATEST_OF_PIPELINE, &[text(pipeline)])?.map(DeploymentRow::into_deployment).transpose()
}

/// Allocates the number of the pipeline's next deployment.
pub fn next_number(tx: &mut Tx<'_>, pipeline: PipelineId) -> Result<i64, StoreError> {
    let last: Option<i64> = tx.fetch_optional(&LAST_NUMBER, &[text(pipeline)])?;
    let next = last.ok_or_else(|| StoreError::Bug("a deployment without a pipeline".into()))? + 1;
    tx.execute_one(&SET_LAST_NUMBER, &[text(pipeline), next.into()])?;
    Ok(next)
}

pub(crate) fn put<T: Clone + Into<DeploymentTarget>>(
    tx: &mut Tx<'_>,
    it: &Deployment<T>,
) -> Result<(), StoreError> {
    tx.put(&PUT, &DeploymentRow::from_deployment(it))
}

/// Stores the full hash of the commit from which the deployment's plan was made.
pub fn set_resolved_commit(tx: &mut Tx<'_>, id: DeploymentId, commit: &str) -> Result<(), StoreError> {
    tx.execute_one(&SET_RESOLVED_COMMIT, &[text(id), commit.into()])
}
