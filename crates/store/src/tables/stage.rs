//! The state of stages: their current deployments, and whether promotion into them is paused.

use berth_core::deployment::stages::stage::{PromotionPause, Stage};
use berth_core::id::{DeploymentId, PipelineId};
use berth_core::time::Timestamp;

use crate::error::StoreError;
use crate::sql::value::{SqlValue, text};
use crate::sql::{FromRow, RowReader, TableRow as _, ToParams, statements, table};
use crate::tx::{StoreRead, Tx};

table!(Org Stage in stages {
    key: [pipeline: pipeline_id, name],
    update: [
        version, current: (deployment_id, since), pause: (paused_by, paused_at, pause_reason, rollback_id),
    ],
});

statements! {
    Org Read BY_NAME => Stage::TABLE.select("WHERE org_id = $1 AND pipeline_id = $2 AND name = $3 {for_update}");
    Org Read OF_PIPELINE => Stage::TABLE.select("WHERE org_id = $1 AND pipeline_id = $2 ORDER BY name");
    Org Write PUT => Stage::TABLE.upsert("WHERE stages.version = excluded.version - 1");
}

impl FromRow for Option<(DeploymentId, Timestamp)> {
    fn from_row(row: &mut RowReader) -> Result<Self, StoreError> {
        let (deployment, since): (Option<_>, Option<_>) = row.take()?;
        Ok(deployment.zip(since))
    }
}

impl ToParams for Option<(DeploymentId, Timestamp)> {
    fn to_params(&self, params: &mut Vec<SqlValue>) -> Result<(), StoreError> {
        (self.map(|(deployment, _)| deployment), self.map(|(_, since)| since)).to_params(params)
    }
}

impl FromRow for Option<PromotionPause> {
    fn from_row(row: &mut RowReader) -> Result<Self, StoreError> {
        let (by, at, reason, rollback): (Option<_>, Option<_>, _, Option<_>) = row.take()?;
        Ok(by.zip(at).zip(rollback).map(|((by, at), rollback)| PromotionPause { by, at, reason, rollback }))
    }
}

impl ToParams for Option<PromotionPause> {
    fn to_params(&self, params: &mut Vec<SqlValue>) -> Result<(), StoreError> {
        let pause = self.as_ref();
        let reason = pause.and_then(|it| it.reason.as_ref());
        (pause.map(|it| &it.by), pause.map(|it| it.at), reason, pause.map(|it| it.rollback)).to_params(params)
    }
}

/// Loads a stage. If it has no row, it has had no deployment yet.
pub fn by_name(db: &mut impl StoreRead, pipeline: PipelineId, name: &str) -> Result<Stage, StoreError> {
    let stage = db.fetch_optional(&BY_NAME, &[text(pipeline), name.into()])?;
    Ok(stage.unwrap_or_else(|| Stage::new(pipeline, name)))
}

/// Stages that have had a deployment, including stages that are no longer in the definition.
pub fn list_of_pipeline(db: &mut impl StoreRead, pipeline: PipelineId) -> Result<Vec<Stage>, StoreError> {
    db.fetch_all(&OF_PIPELINE, &[text(pipeline)])
}

pub(crate) fn put(tx: &mut Tx<'_>, stage: &Stage) -> Result<(), StoreError> {
    tx.put(&PUT, stage)
}
