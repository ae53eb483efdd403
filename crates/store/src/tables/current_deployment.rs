//! The current deployment of each stage and environment, and the newest one if it failed.

use berth_core::deployment::stages::stage::PromotionPause;
use berth_core::event::Actor;
use berth_core::id::{DeploymentId, EnvironmentId, PipelineId};
use berth_core::name::CommitId;
use berth_core::pipeline::state::Pipeline;
use berth_core::time::Timestamp;

use super::stage;
use crate::error::StoreError;
use crate::sql::statements;
use crate::sql::value::text;
use crate::tx::StoreRead;

statements! {
    Org Read BY_ID = "SELECT id, commit_id, resolved_commit, requested_by FROM deployments
        WHERE org_id = $1 AND id = $2";
    Org Read IN_ENVIRONMENT = "SELECT id, commit_id, resolved_commit, requested_by, finished_at FROM deployments
        WHERE org_id = $1 AND environment_id = $2 AND status = 'succeeded' ORDER BY number DESC LIMIT 1";
    Org Read FAILED_IN_STAGE = "SELECT d.id, d.commit_id, d.resolved_commit, d.requested_by, d.number, e.ended_at
        FROM (SELECT deployment_id, is_success, ended_at FROM stage_ends
            WHERE org_id = $1 AND pipeline_id = $2 AND stage = $3
            ORDER BY ended_at DESC, deployment_id DESC LIMIT 1) e
        JOIN deployments d ON d.org_id = $1 AND d.id = e.deployment_id
        WHERE e.is_success = 0 AND d.status = 'failed'";
    Org Read FAILED_IN_PIPELINE =
        "SELECT d.id, d.commit_id, d.resolved_commit, d.requested_by, d.number, d.finished_at
        FROM (SELECT id, commit_id, resolved_commit, requested_by, number, finished_at, status FROM deployments
            WHERE org_id = $1 AND pipeline_id = $2 AND environment_id IS NULL
            ORDER BY number DESC LIMIT 1) d
        WHERE d.status = 'failed'";
    Org Read FAILED_IN_ENVIRONMENT =
        "SELECT d.id, d.commit_id, d.resolved_commit, d.requested_by, d.number, d.finished_at
        FROM (SELECT id, commit_id, resolved_commit, requested_by, number, finished_at, status FROM deployments
            WHERE org_id = $1 AND environment_id = $2 ORDER BY number DESC LIMIT 1) d
        WHERE d.status = 'failed'";
}

/// The last successful deployment in a stage or environment.
#[derive(Debug, Clone, PartialEq)]
pub struct CurrentDeployment {
    pub deployment: DeploymentId,
    /// The full commit hash if it is known, otherwise the commit as requested.
    pub commit: String,
    pub at: Timestamp,
    pub by: Actor,
}

type DeploymentColumns = (DeploymentId, CommitId, Option<String>, Actor);

impl CurrentDeployment {
    fn new((deployment, commit, resolved, by): DeploymentColumns, at: Timestamp) -> Self {
        Self { deployment, commit: resolved.unwrap_or_else(|| commit.to_string()), at, by }
    }
}

/// A failed deployment, with no later one in the same stage, environment or pipeline.
#[derive(Debug, Clone, PartialEq)]
pub struct FailedDeployment {
    pub number: i64,
    /// The deployment; `at` is when it failed.
    pub deployment: CurrentDeployment,
}

type FailedColumns = (DeploymentColumns, i64, Timestamp);

impl FailedDeployment {
    fn new((columns, number, at): FailedColumns) -> Self {
        Self { number, deployment: CurrentDeployment::new(columns, at) }
    }
}

/// A stage of a pipeline, as currently defined.
#[derive(Debug, Clone, PartialEq)]
pub struct StageOverview {
    pub name: String,
    /// Incremented by every change of the stage.
    pub version: i64,
    pub current: Option<CurrentDeployment>,
    /// The newest deployment in the stage, if it failed there.
    pub failed: Option<FailedDeployment>,
    pub pause: Option<PromotionPause>,
}

/// Lists the stages of the pipeline's definition, in order.
pub fn list_of_stages(
    db: &mut impl StoreRead,
    pipeline: &Pipeline,
) -> Result<Vec<StageOverview>, StoreError> {
    let mut stages = stage::list_of_pipeline(db, pipeline.id)?;
    let mut overviews = Vec::with_capacity(pipeline.outline.stages.len());
    for name in &pipeline.outline.stages {
        let index = stages.iter().position(|it| it.name == *name);
        let stage = index.map(|index| stages.swap_remove(index));
        let (version, since, pause) =
            stage.map_or((0, None, None), |stage| (stage.version, stage.current, stage.pause));
        let current = match since {
            Some((deployment, at)) => {
                let columns = db.fetch_optional(&BY_ID, &[text(deployment)])?;
                columns.map(|columns| CurrentDeployment::new(columns, at))
            }
            None => None,
        };
        let failed = db.fetch_optional(&FAILED_IN_STAGE, &[text(pipeline.id), name.as_str().into()])?;
        let failed = failed.map(FailedDeployment::new);
        overviews.push(StageOverview { name: name.clone(), version, current, failed, pause });
    }
    Ok(overviews)
}

pub fn find_of_environment(
    db: &mut impl StoreRead,
    id: EnvironmentId,
) -> Result<Option<CurrentDeployment>, StoreError> {
    let found = db.fetch_optional(&IN_ENVIRONMENT, &[text(id)])?;
    Ok(found.map(|(columns, at)| CurrentDeployment::new(columns, at)))
}

/// The newest deployment of the pipeline's stages, if it failed.
pub fn find_failed_of_pipeline(
    db: &mut impl StoreRead,
    id: PipelineId,
) -> Result<Option<FailedDeployment>, StoreError> {
    Ok(db.fetch_optional(&FAILED_IN_PIPELINE, &[text(id)])?.map(FailedDeployment::new))
}

/// The newest deployment of the environment, if it failed.
pub fn find_failed_of_environment(
    db: &mut impl StoreRead,
    id: EnvironmentId,
) -> Result<Option<FailedDeployment>, StoreError> {
    Ok(db.fetch_optional(&FAILED_IN_ENVIRONMENT, &[text(id)])?.map(FailedDeployment::new))
}
