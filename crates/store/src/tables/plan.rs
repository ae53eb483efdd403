//! Plans of deployments, and build results that deployments share.

use std::collections::BTreeMap;

use berth_core::deployment::run::Plan;
use berth_core::deployment::run::begin::{BuildResults, BuildStepResults};
use berth_core::id::{DeploymentId, PipelineId};

use crate::error::StoreError;
use crate::sql::value::{text, to_json};
use crate::sql::{json_columns, statements};
use crate::tx::{StoreRead, Tx};

statements! {
    Org Read PLAN = "SELECT plan FROM plans WHERE org_id = $1 AND deployment_id = $2";
    Org Write PUT = "INSERT INTO plans (org_id, deployment_id, plan) VALUES ($1, $2, $3)";
    Org Read BUILD = "SELECT deployment_id, built FROM builds
        WHERE org_id = $1 AND pipeline_id = $2 AND commit_id = $3 AND definition_hash = $4 {for_update}";
    Org Upkeep CLAIM_BUILD = "INSERT INTO builds (org_id, pipeline_id, commit_id, definition_hash, deployment_id)
        VALUES ($1, $2, $3, $4, $5) ON CONFLICT (org_id, pipeline_id, commit_id, definition_hash)
        DO UPDATE SET deployment_id = excluded.deployment_id WHERE builds.built_at IS NULL";
    Org Upkeep BUILT = "UPDATE builds SET built = $3, built_at = $4
        WHERE org_id = $1 AND deployment_id = $2 AND built_at IS NULL";
    Org Upkeep FORGET_BUILD = "DELETE FROM builds WHERE org_id = $1 AND deployment_id = $2 AND built_at IS NULL";
}

/// Outputs and artifacts of a build's steps. The key is the index of the step.
type BuildSteps = BTreeMap<usize, BuildStepResults>;
json_columns!(Plan, BuildSteps);

/// Identifies a build by its pipeline, commit and definition.
#[derive(Debug, Clone, Copy)]
pub struct BuildKey<'a> {
    pub pipeline: PipelineId,
    pub commit: &'a str,
    pub definition_hash: &'a str,
}

pub enum BuildState {
    Done(BuildResults),
    /// This deployment has started the build. It may have failed since.
    Begun(DeploymentId),
}

pub fn by_id(db: &mut impl StoreRead, deployment: DeploymentId) -> Result<Option<Plan>, StoreError> {
    db.fetch_optional(&PLAN, &[text(deployment)])
}

pub fn put(tx: &mut Tx<'_>, deployment: DeploymentId, plan: &Plan) -> Result<(), StoreError> {
    tx.put(&PUT, &(deployment, plan))
}

pub fn find_build(db: &mut impl StoreRead, key: BuildKey<'_>) -> Result<Option<BuildState>, StoreError> {
    let params = [text(key.pipeline), key.commit.into(), key.definition_hash.into()];
    let found: Option<(_, Option<BuildSteps>)> = db.fetch_optional(&BUILD, &params)?;
    Ok(found.map(|(by, steps)| match steps {
        Some(steps) => BuildState::Done(BuildResults { by, steps }),
        None => BuildState::Begun(by),
    }))
}

/// Makes a deployment responsible for the build, unless the build is already finished.
pub fn claim_build(tx: &mut Tx<'_>, key: BuildKey<'_>, by: DeploymentId) -> Result<(), StoreError> {
    let params = [text(key.pipeline), key.commit.into(), key.definition_hash.into(), text(by)];
    tx.execute(&CLAIM_BUILD, &params).map(drop)
}

/// Stores the results of the build that a deployment ran. If `steps` is `None`, the build failed and is deleted.
pub fn end_build(tx: &mut Tx<'_>, by: DeploymentId, steps: Option<&BuildSteps>) -> Result<(), StoreError> {
    let now = tx.now();
    match steps {
        Some(steps) => tx.execute(&BUILT, &[text(by), to_json(steps)?.into(), now.into()]).map(drop),
        None => tx.execute(&FORGET_BUILD, &[text(by)]).map(drop),
    }
}
