//! Walks through everything there is, page by page, for those who look after an installation.

use std::collections::BTreeMap;

use berth_core::id::{DeploymentId, EnvironmentId, OrgId, PipelineId, StepRunId};

use crate::error::StoreError;
use crate::sql::statements;
use crate::tx::Read;
use crate::value::{Row, text};

statements! {
    Instance Read ORGANIZATIONS = "SELECT id, slug FROM organizations WHERE id > $1 ORDER BY id LIMIT $2";
    Instance Read EPOCH = "SELECT epoch FROM instance WHERE id = 'berth'";
    Instance Read ROOT_KEYS = "SELECT root_key_id FROM instance_keys ORDER BY id LIMIT 1";
    Instance Read ALL_ROOT_KEYS = "SELECT root_key_id FROM instance_keys UNION SELECT root_key_id FROM data_keys
        ORDER BY root_key_id LIMIT 2";
    Org Read ENVIRONMENTS = "SELECT id FROM environments WHERE org_id = $1 AND id > $2 ORDER BY id LIMIT $3";
    Org Read ACTIVE_PIPELINES = "SELECT id FROM pipelines
        WHERE org_id = $1 AND id > $2 AND status = 'active' AND deleted_at IS NULL ORDER BY id LIMIT $3";
    Org Read LOGGED = "SELECT deployment_id, step_id, number FROM attempts
        WHERE org_id = $1 AND (deployment_id, step_id, number) > ($2, $3, $4) AND ended_at IS NOT NULL AND log_bytes > 0
        ORDER BY deployment_id, step_id, number LIMIT $5";
    // What was given up stays so, also when a later stage is tried again.
    Org Read LEFT_BEHIND = "SELECT s.deployment_id, s.stage, s.position, s.artifacts FROM step_runs s
        JOIN deployments d ON d.org_id = s.org_id AND d.id = s.deployment_id
        WHERE s.org_id = $1 AND (s.deployment_id, s.stage, s.position) > ($2, $3, $4) AND s.artifacts IS NOT NULL
          AND (d.artifacts_removed_at IS NULL OR s.finished_at IS NULL OR d.artifacts_removed_at < s.finished_at)
        ORDER BY s.deployment_id, s.stage, s.position LIMIT $5";
    Org Read BUILT = "SELECT registry_id, commit_id, digest FROM registry_versions
        WHERE org_id = $1 AND (registry_id, commit_id) > ($2, $3) ORDER BY registry_id, commit_id LIMIT $4";
}

/// Rows of one page.
pub const PAGE_ROWS: i64 = 500;

/// An attempt that has ended and has printed something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Logged {
    pub deployment: DeploymentId,
    pub step: StepRunId,
    pub attempt: u32,
}

/// Artifacts a step has left behind: digests by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftBehind {
    pub deployment: DeploymentId,
    pub stage: i64,
    pub position: i64,
    pub artifacts: BTreeMap<String, String>,
}

/// A version of a registry, whose build is an artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Built {
    pub registry: String,
    pub commit: String,
    pub digest: String,
}

/// Ids and slugs, after this id.
pub fn organizations(db: &mut impl Read, after: Option<OrgId>) -> Result<Vec<(OrgId, String)>, StoreError> {
    let rows = db.rows(&ORGANIZATIONS, &[from(after), PAGE_ROWS.into()])?;
    rows.iter().map(|row| Ok((row.parse(0)?, row.text(1)?.to_owned()))).collect()
}

/// Which root key the database was made with, or was rotated to.
pub fn root_key(db: &mut impl Read) -> Result<Option<String>, StoreError> {
    db.row(&ROOT_KEYS, &[])?.map(|row| Ok(row.text(0)?.to_owned())).transpose()
}

/// Which root keys are needed to open everything, at most two: more than one while they are being rotated.
pub fn root_keys(db: &mut impl Read) -> Result<Vec<String>, StoreError> {
    db.rows(&ALL_ROOT_KEYS, &[])?.iter().map(|row| Ok(row.text(0)?.to_owned())).collect()
}

pub fn environments(
    db: &mut impl Read,
    after: Option<EnvironmentId>,
) -> Result<Vec<EnvironmentId>, StoreError> {
    let rows = db.rows(&ENVIRONMENTS, &[from(after), PAGE_ROWS.into()])?;
    rows.iter().map(|row| row.parse(0)).collect()
}

pub fn active_pipelines(
    db: &mut impl Read,
    after: Option<PipelineId>,
) -> Result<Vec<PipelineId>, StoreError> {
    let rows = db.rows(&ACTIVE_PIPELINES, &[from(after), PAGE_ROWS.into()])?;
    rows.iter().map(|row| row.parse(0)).collect()
}

pub fn logged(db: &mut impl Read, after: Option<Logged>) -> Result<Vec<Logged>, StoreError> {
    let (deployment, step) = (from(after.map(|it| it.deployment)), from(after.map(|it| it.step)));
    let number = after.map_or(0, |it| i64::from(it.attempt));
    let read = |row: &Row| {
        let attempt = u32::try_from(row.int(2)?).unwrap_or(u32::MAX);
        Ok(Logged { deployment: row.parse(0)?, step: row.parse(1)?, attempt })
    };
    db.rows(&LOGGED, &[deployment, step, number.into(), PAGE_ROWS.into()])?.iter().map(read).collect()
}

/// Without those that were given up because they were old.
pub fn left_behind(db: &mut impl Read, after: Option<&LeftBehind>) -> Result<Vec<LeftBehind>, StoreError> {
    db.rows(&LEFT_BEHIND, &after_left_behind(after))?.iter().map(read_left_behind).collect()
}

pub(crate) fn after_left_behind(after: Option<&LeftBehind>) -> [crate::value::Value; 4] {
    let (stage, position) = after.map_or((-1, -1), |it| (it.stage, it.position));
    [from(after.map(|it| it.deployment)), stage.into(), position.into(), PAGE_ROWS.into()]
}

pub(crate) fn read_left_behind(row: &Row) -> Result<LeftBehind, StoreError> {
    let artifacts = row.json(3)?;
    Ok(LeftBehind { deployment: row.parse(0)?, stage: row.int(1)?, position: row.int(2)?, artifacts })
}

pub fn built(db: &mut impl Read, after: Option<&Built>) -> Result<Vec<Built>, StoreError> {
    let (registry, commit) = after.map_or(("", ""), |it| (&it.registry, &it.commit));
    let read = |row: &Row| {
        let [registry, commit, digest] = [row.text(0)?, row.text(1)?, row.text(2)?].map(str::to_owned);
        Ok(Built { registry, commit, digest })
    };
    let rows = db.rows(&BUILT, &[registry.into(), commit.into(), PAGE_ROWS.into()])?;
    rows.iter().map(read).collect()
}

/// Below every id where there is none.
fn from(after: Option<impl std::fmt::Display>) -> crate::value::Value {
    after.map_or_else(|| "".into(), text)
}

/// The upper part of fences.
pub fn epoch(db: &mut impl Read) -> Result<i64, StoreError> {
    let row = db.row(&EPOCH, &[])?;
    row.map_or_else(|| Err(StoreError::Bug("the instance has no row".into())), |row| row.int(0))
}
