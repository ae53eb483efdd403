//! Plans of deployments, and what their builds left behind.

use std::collections::BTreeMap;

use berth_core::deployment::run::Plan;
use berth_core::deployment::run::begin::Built;
use berth_core::id::{DeploymentId, PipelineId};

use crate::error::StoreError;
use crate::sql::statements;
use crate::tx::{Read, Tx};
use crate::value::{Row, text, to_json};

statements! {
    Org Read PLAN = "SELECT plan FROM plans WHERE org_id = $1 AND deployment_id = $2";
    // Part of the deployment's beginning, which has its event.
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

pub fn by_id(db: &mut impl Read, deployment: DeploymentId) -> Result<Option<Plan>, StoreError> {
    db.row(&PLAN, &[text(deployment)])?.map(|row| row.json(0)).transpose()
}

pub fn put(tx: &mut Tx<'_>, deployment: DeploymentId, plan: &Plan) -> Result<(), StoreError> {
    tx.execute_one(&PUT, &[text(deployment), to_json(plan)?.into()])
}

/// Whose build it is, of one commit with one definition.
#[derive(Debug, Clone, Copy)]
pub struct BuildKey<'a> {
    pub pipeline: PipelineId,
    pub commit: &'a str,
    pub definition_hash: &'a str,
}

pub enum Build {
    Done(Built),
    /// By another deployment, which may have failed meanwhile.
    Begun(DeploymentId),
}

pub fn build(db: &mut impl Read, key: BuildKey<'_>) -> Result<Option<Build>, StoreError> {
    let params = [text(key.pipeline), key.commit.into(), key.definition_hash.into()];
    let Some(row) = db.row(&BUILD, &params)? else { return Ok(None) };
    let by = row.parse(0)?;
    Ok(Some(match row.maybe(1, Row::json)? {
        Some(steps) => Build::Done(Built { by, steps }),
        None => Build::Begun(by),
    }))
}

pub fn claim_build(tx: &mut Tx<'_>, key: BuildKey<'_>, by: DeploymentId) -> Result<(), StoreError> {
    let params = [text(key.pipeline), key.commit.into(), key.definition_hash.into(), text(by)];
    tx.execute(&CLAIM_BUILD, &params).map(drop)
}

type Left = BTreeMap<usize, (BTreeMap<String, String>, BTreeMap<String, String>)>;

/// `None`: there is no such build after all.
pub fn end_build(tx: &mut Tx<'_>, by: DeploymentId, left: Option<&Left>) -> Result<(), StoreError> {
    let now = tx.now();
    match left {
        Some(left) => tx.execute(&BUILT, &[text(by), to_json(left)?.into(), now.into()]).map(drop),
        None => tx.execute(&FORGET_BUILD, &[text(by)]).map(drop),
    }
}
