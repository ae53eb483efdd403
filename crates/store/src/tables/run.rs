//! Runs: the execution state of deployments. There is one row per run, and one per step.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_core::deployment::run::{
    Attempt, CustomStepState, Run, RunChange, StageRun, StepRun, StepRunStatus,
};
use berth_core::id::{DeploymentId, StepRunId};

use super::attempt;
use crate::error::StoreError;
use crate::sql::value::text;
use crate::sql::{
    SqlStatement, StatementKind, TableRow as _, ToParams as _, json_columns, sparse_json_columns, statements,
    table, word_columns,
};
use crate::tx::{StoreRead, Tx};

table!(Org Run in runs {
    key: [deployment: deployment_id],
    update: [stages, version],
    derived: [
        ready_at = |it| it.next_ready_at(),
        queued_for = |it| it.queued_for().map(|(_, stage)| stage.to_owned()),
        wakes_at = |it| it.wakes_at(),
    ],
    insert: [pipeline: pipeline_id],
    unset: [steps],
});
table!(Org StepRun in step_runs of deployment_id {
    key: [stage, index: position],
    update: [
        status, tries, failures, losses, false_starts, not_before, outputs, artifacts, failure, started_at, finished_at,
        memory,
    ],
    insert: [id, step],
    unset: [live],
});
json_columns!(CustomStepState);
sparse_json_columns!(BTreeMap<String, String>);
word_columns!(StepRunStatus: StepRunStatus::ALL);

statements! {
    Org Read BY_ID => Run::TABLE.select("WHERE org_id = $1 AND deployment_id = $2 {for_update}");
    Org Read VERSION = "SELECT version FROM runs WHERE org_id = $1 AND deployment_id = $2 {for_update}";
    Org Read STAGES = "SELECT stages FROM runs WHERE org_id = $1 AND deployment_id = $2";
    Org Read STEPS => StepRun::TABLE.select("WHERE org_id = $1 AND deployment_id = $2 ORDER BY stage, position");
    Org Read FIND_STEPS = "SELECT id, stage, status FROM step_runs
        WHERE org_id = $1 AND deployment_id = $2 AND (id = $3 OR step = $3) ORDER BY stage, position";
    Org Write INSERT => Run::TABLE.insert("");
    Org Write UPDATE => Run::TABLE.update("WHERE org_id = $1 AND deployment_id = $2 AND version = $8");
    Org Write INSERT_STEP => StepRun::TABLE.insert("");
    Org Write UPDATE_STEP => StepRun::TABLE.update(
        "WHERE org_id = $1 AND deployment_id = $2 AND stage = $3 AND position = $4");
}

/// The position of a step, and whether it can still run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepLocation {
    pub id: StepRunId,
    /// Position of the step's stage in [`stage_names`].
    pub stage: usize,
    /// The step has ended. It runs again only if its stage is retried.
    pub is_final: bool,
}

/// The version of a run, incremented by every change.
pub fn load_version(db: &mut impl StoreRead, id: DeploymentId) -> Result<Option<i64>, StoreError> {
    db.fetch_optional(&VERSION, &[text(id)])
}

pub fn by_id(db: &mut impl StoreRead, id: DeploymentId) -> Result<Option<Run>, StoreError> {
    let Some(mut run) = db.fetch_optional::<Run>(&BY_ID, &[text(id)])? else { return Ok(None) };
    let live = attempt::list_live_of_run(db, id)?;
    let mut live: BTreeMap<StepRunId, Attempt> = live.into_iter().map(|it| (it.step, it)).collect();
    let steps: Vec<StepRun> = db.fetch_all(&STEPS, &[text(id)])?;
    run.steps = steps.into_iter().map(|it| Arc::new(StepRun { live: live.remove(&it.id), ..it })).collect();
    Ok(Some(run))
}

/// The stages of a run. Empty until the run has been created.
pub fn list_stages(db: &mut impl StoreRead, id: DeploymentId) -> Result<Vec<StageRun>, StoreError> {
    Ok(db.fetch_optional(&STAGES, &[text(id)])?.unwrap_or_default())
}

/// Names of the stages, in order.
pub fn stage_names(db: &mut impl StoreRead, id: DeploymentId) -> Result<Vec<String>, StoreError> {
    Ok(list_stages(db, id)?.into_iter().map(|stage| stage.name).collect())
}

/// Finds the steps to which `name` refers. It is either the unique id of a step run, or the step's id in the
/// definition, which several stages can have in common.
pub fn find_steps(
    db: &mut impl StoreRead,
    deployment: DeploymentId,
    name: &str,
) -> Result<Vec<StepLocation>, StoreError> {
    let rows: Vec<(_, _, StepRunStatus)> = db.fetch_all(&FIND_STEPS, &[text(deployment), name.into()])?;
    Ok(rows
        .into_iter()
        .map(|(id, stage, status)| StepLocation { id, stage, is_final: status.is_final() })
        .collect())
}

pub(crate) fn put(tx: &mut Tx<'_>, change: &RunChange) -> Result<(), StoreError> {
    let run = &change.run;
    let mut params = Vec::new();
    run.to_params(&mut params)?;
    if change.previous_version > 0 {
        params.truncate(Run::TABLE.update_params());
        params.push(change.previous_version.into());
    }
    tx.execute_one(
        &statement_for(change, if change.previous_version == 0 { &INSERT } else { &UPDATE }),
        &params,
    )?;
    for &index in &change.steps {
        put_step(tx, change, &run.steps[index])?;
    }
    change.attempts.iter().try_for_each(|it| attempt::put(tx, change, it))
}

/// Some changes, such as the poll of a custom step, record no event. Their statements then count as upkeep.
pub(super) const fn statement_for(change: &RunChange, statement: &SqlStatement) -> SqlStatement {
    let kind = if change.is_quiet { StatementKind::Upkeep } else { statement.kind };
    SqlStatement { kind, ..*statement }
}

fn put_step(tx: &mut Tx<'_>, change: &RunChange, step: &StepRun) -> Result<(), StoreError> {
    let mut params = vec![text(change.run.deployment)];
    step.to_params(&mut params)?;
    if change.previous_version == 0 {
        return tx.execute_one(&statement_for(change, &INSERT_STEP), &params);
    }
    tx.execute_one(&statement_for(change, &UPDATE_STEP), &params[..=StepRun::TABLE.update_params()])
}
