//! What is where: the deployments that stages and environments have.

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
