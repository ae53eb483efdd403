//! Steps of a deployment and their attempts, for requests for a log.

use berth_core::id::{DeploymentId, StepRunId};
use serde::Deserialize;

use crate::error::StoreError;
use crate::sql::statements;
use crate::sql::value::{Row, text};
use crate::tx::Read;

statements! {
    Org Read STEPS = "SELECT id, stage, status FROM step_runs
        WHERE org_id = $1 AND deployment_id = $2 AND (id = $3 OR step = $3) ORDER BY stage, position";
    Org Read STAGES = "SELECT stages FROM runs WHERE org_id = $1 AND deployment_id = $2";
    Org Read LATEST = "SELECT number, ended_at FROM attempts
        WHERE org_id = $1 AND deployment_id = $2 AND step_id = $3 ORDER BY number DESC LIMIT 1";
    Org Read NUMBERED = "SELECT number, ended_at FROM attempts
        WHERE org_id = $1 AND deployment_id = $2 AND step_id = $3 AND number = $4";
}

/// A step in one stage of a deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub id: StepRunId,
    /// Index of the stage in [`stages`].
    pub stage: usize,
    /// The step has ended, and runs again only if a user retries it.
    pub is_final: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    pub number: u32,
    pub has_ended: bool,
}

/// Steps with this run id, or with this id in the definition: one for each stage that has it.
pub fn steps(db: &mut impl Read, deployment: DeploymentId, name: &str) -> Result<Vec<Step>, StoreError> {
    db.rows(&STEPS, &[text(deployment), name.into()])?.iter().map(step).collect()
}

/// Names of the deployment's stages, in order.
pub fn stages(db: &mut impl Read, deployment: DeploymentId) -> Result<Vec<String>, StoreError> {
    #[derive(Deserialize)]
    struct Named {
        name: String,
    }
    let Some(row) = db.row(&STAGES, &[text(deployment)])? else { return Ok(Vec::new()) };
    let stages: Vec<Named> = row.json(0)?;
    Ok(stages.into_iter().map(|stage| stage.name).collect())
}

/// The attempt with this number, or the latest one.
pub fn attempt(
    db: &mut impl Read,
    deployment: DeploymentId,
    step: StepRunId,
    number: Option<u32>,
) -> Result<Option<Attempt>, StoreError> {
    let (deployment, step) = (text(deployment), text(step));
    let row = match number {
        None => db.row(&LATEST, &[deployment, step])?,
        Some(number) => db.row(&NUMBERED, &[deployment, step, i64::from(number).into()])?,
    };
    row.map(|row| Ok(Attempt { number: whole(row.int(0)?)?, has_ended: row.maybe(1, Row::time)?.is_some() }))
        .transpose()
}

fn step(row: &Row) -> Result<Step, StoreError> {
    let is_final = matches!(row.text(2)?, "succeeded" | "failed" | "cancelled" | "skipped");
    Ok(Step { id: row.parse(0)?, stage: whole(row.int(1)?)?, is_final })
}

fn whole<T: TryFrom<i64>>(number: i64) -> Result<T, StoreError> {
    T::try_from(number).map_err(|_| StoreError::Bug(format!("{number} is out of range")))
}
