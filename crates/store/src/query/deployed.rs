//! The current deployments of stages and environments.

use berth_core::deployment::stages::stage::Pause;
use berth_core::event::Actor;
use berth_core::id::{DeploymentId, EnvironmentId};
use berth_core::pipeline::state::Pipeline;
use berth_core::time::Timestamp;

use crate::error::StoreError;
use crate::records::stage;
use crate::sql::statements;
use crate::sql::value::{Row, text};
use crate::tx::Read;

statements! {
    Org Read CURRENT = "SELECT id, commit_id, resolved_commit, requested_by FROM deployments
        WHERE org_id = $1 AND id = $2";
    Org Read IN_ENVIRONMENT = "SELECT id, commit_id, resolved_commit, requested_by, finished_at FROM deployments
        WHERE org_id = $1 AND environment_id = $2 AND status = 'succeeded' ORDER BY number DESC LIMIT 1";
}

/// The current deployment of a stage or an environment.
#[derive(Debug, Clone, PartialEq)]
pub struct Current {
    pub deployment: DeploymentId,
    /// The full hash if it is known, otherwise the commit as requested.
    pub commit: String,
    pub at: Timestamp,
    pub by: Actor,
}

/// A stage of the pipeline's current definition, with its deployment.
#[derive(Debug, Clone, PartialEq)]
pub struct StageNow {
    pub name: String,
    /// Incremented with every change of the stage; 0 if nothing has happened in it.
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

/// The last successful deployment to an environment.
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
