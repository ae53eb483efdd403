//! What is where: the deployments that stages and environments have.

use berth_core::event::Actor;
use berth_core::id::{DeploymentId, EnvironmentId, OrgId, PipelineId};
use berth_core::pipeline::state::Pipeline;
use berth_core::run::{StageKind, StageRun, StageStatus};
use berth_core::stage::{Pause, StageEnd};
use berth_core::time::Timestamp;

use crate::error::StoreError;
use crate::records::stage;
use crate::sql::statements;
use crate::tx::Read;
use crate::value::{Row, text};

statements! {
    Org Read CURRENT = "SELECT id, commit_id, resolved_commit, requested_by FROM deployments
        WHERE org_id = $1 AND id = $2";
    Org Read IN_ENVIRONMENT = "SELECT id, commit_id, resolved_commit, requested_by, finished_at FROM deployments
        WHERE org_id = $1 AND environment_id = $2 AND status = 'succeeded' ORDER BY number DESC LIMIT 1";
    Instance Read WITHOUT_STAGES = "SELECT org_id, id FROM pipelines
        WHERE stages_noted = 0 AND (org_id > $1 OR (org_id = $1 AND id > $2)) ORDER BY org_id, id LIMIT $3";
    Org Read RUNS = "SELECT r.deployment_id, r.stages FROM deployments d
        JOIN runs r ON r.org_id = d.org_id AND r.deployment_id = d.id
        WHERE d.org_id = $1 AND d.pipeline_id = $2 AND d.environment_id IS NULL ORDER BY d.number DESC LIMIT $3";
}

/// What is somewhere now.
#[derive(Debug, Clone, PartialEq)]
pub struct Current {
    pub deployment: DeploymentId,
    /// The whole hash, where it is known.
    pub commit: String,
    pub at: Timestamp,
    pub by: Actor,
}

/// A stage of a pipeline's present definition, as it is shown.
#[derive(Debug, Clone, PartialEq)]
pub struct StageNow {
    pub name: String,
    /// Rises with every change of what is shown of it.
    pub version: i64,
    pub current: Option<Current>,
    pub pause: Option<Pause>,
}

pub fn stages(db: &mut impl Read, pipeline: &Pipeline) -> Result<Vec<StageNow>, StoreError> {
    let mut known = stage::of_pipeline(db, pipeline.id)?;
    let mut found = Vec::with_capacity(pipeline.outline.stages.len());
    for name in &pipeline.outline.stages {
        let at = known.iter().position(|it| it.name == *name).map(|at| known.swap_remove(at));
        let (version, at, pause) =
            at.map_or((0, None, None), |stage| (stage.version, stage.current, stage.pause));
        let current = match at {
            Some((deployment, at)) => match db.row(&CURRENT, &[text(deployment)])? {
                Some(row) => Some(current(&row, at)?),
                None => None,
            },
            None => None,
        };
        found.push(StageNow { name: name.clone(), version, current, pause });
    }
    Ok(found)
}

/// What was last deployed into an environment.
pub fn in_environment(db: &mut impl Read, id: EnvironmentId) -> Result<Option<Current>, StoreError> {
    let row = db.row(&IN_ENVIRONMENT, &[text(id)])?;
    row.map(|row| current(&row, row.time(4)?)).transpose()
}

fn current(row: &Row, at: Timestamp) -> Result<Current, StoreError> {
    let commit = match row.maybe(2, Row::text)? {
        Some(resolved) => resolved,
        None => row.text(1)?,
    };
    Ok(Current { deployment: row.parse(0)?, commit: commit.to_owned(), at, by: row.json(3)? })
}

/// Pipelines of which nobody has noted what is in their stages, after this one.
pub fn without_stages(
    db: &mut impl Read,
    after: Option<(OrgId, PipelineId)>,
    limit: i64,
) -> Result<Vec<(OrgId, PipelineId)>, StoreError> {
    let (org, id) = after.map(|(org, id)| (org.to_string(), id.to_string())).unwrap_or_default();
    let rows = db.rows(&WITHOUT_STAGES, &[org.into(), id.into(), limit.into()])?;
    rows.iter().map(|row| Ok((row.parse(0)?, row.parse(1)?))).collect()
}

/// How the stages of a pipeline ended, as the runs of its newest deployments tell, newest first.
pub fn ends(db: &mut impl Read, pipeline: PipelineId, limit: i64) -> Result<Vec<StageEnd>, StoreError> {
    let mut found = Vec::new();
    for row in db.rows(&RUNS, &[text(pipeline), limit.into()])? {
        let deployment = row.parse(0)?;
        let stages: Vec<StageRun> = row.json(1)?;
        let count = stages.len();
        for (index, it) in stages.into_iter().enumerate() {
            let is_end = matches!(it.status, StageStatus::Succeeded | StageStatus::Failed);
            let Some(at) = it.finished_at.filter(|_| is_end && it.kind == StageKind::Stage) else { continue };
            found.push(StageEnd {
                pipeline,
                stage: it.name,
                deployment,
                tries: it.tries,
                is_success: it.status == StageStatus::Succeeded,
                at,
                origin: deployment,
                of: None,
                committed_at: None,
                is_last: index + 1 == count,
            });
        }
    }
    Ok(found)
}
