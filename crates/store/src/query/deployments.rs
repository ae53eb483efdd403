//! Lists of deployments, of stages and in environments alike: newest first.

use berth_core::deployment::Deployment;
use berth_core::id::{DeploymentId, PipelineId};
use berth_core::rollout::Rollout;

use super::{From, Slice, counted};
use crate::error::StoreError;
use crate::records::{deployment, rollout};
use crate::sql::statements;
use crate::tx::Read;
use crate::value::{Row, text};

/// A deployment of either kind.
#[derive(Debug, Clone, PartialEq)]
pub enum Either {
    Environment(Box<Deployment>),
    Stages(Box<Rollout>),
}

#[derive(Debug, Clone, Default)]
pub struct Filter {
    pub pipeline: Option<PipelineId>,
    /// A status word.
    pub status: Option<String>,
}

statements! {
    Org Read ALL = "SELECT id, environment_id FROM deployments
        WHERE org_id = $1 AND ($2 = '' OR status = $2) AND ($3 = '' OR id < $3) ORDER BY id DESC LIMIT $4 OFFSET $5";
    Org Read OF_PIPELINE = "SELECT id, environment_id FROM deployments
        WHERE org_id = $1 AND pipeline_id = $6 AND ($2 = '' OR status = $2) AND ($3 = '' OR id < $3)
        ORDER BY id DESC LIMIT $4 OFFSET $5";
    Org Read COUNT = "SELECT CAST(COUNT(*) AS BIGINT) FROM (SELECT 1 FROM deployments
        WHERE org_id = $1 AND ($2 = '' OR status = $2) LIMIT $3) AS counted";
    Org Read COUNT_OF_PIPELINE = "SELECT CAST(COUNT(*) AS BIGINT) FROM (SELECT 1 FROM deployments
        WHERE org_id = $1 AND pipeline_id = $4 AND ($2 = '' OR status = $2) LIMIT $3) AS counted";
    Org Read IS_IN_ENVIRONMENT = "SELECT environment_id FROM deployments WHERE org_id = $1 AND id = $2";
    Org Read LATEST = "SELECT id, environment_id FROM deployments
        WHERE org_id = $1 AND pipeline_id = $2 AND environment_id IS NULL ORDER BY id DESC LIMIT 1";
}

/// `total` is counted, up to a bound, only where it is asked for.
pub fn list(
    db: &mut impl Read,
    filter: &Filter,
    from: &From,
    limit: i64,
    with_total: bool,
) -> Result<Slice<Either>, StoreError> {
    let (after, offset) = match from {
        From::After(id) => (id.as_str(), 0),
        From::Offset(offset) => ("", *offset),
    };
    let status = filter.status.as_deref().unwrap_or_default();
    let mut params = vec![status.into(), after.into(), (limit + 1).into(), offset.into()];
    let rows = match filter.pipeline {
        None => db.rows(&ALL, &params)?,
        Some(pipeline) => {
            params.push(text(pipeline));
            db.rows(&OF_PIPELINE, &params)?
        }
    };
    let mut items = Vec::with_capacity(rows.len());
    for row in &rows {
        items.extend(load(db, row)?);
    }
    let total = if with_total { total(db, filter, status)? } else { None };
    Ok(Slice::cut(items, limit, total))
}

fn total(db: &mut impl Read, filter: &Filter, status: &str) -> Result<Option<i64>, StoreError> {
    let mut params = vec![status.into(), (super::COUNTED_MAX + 1).into()];
    let row = match filter.pipeline {
        None => db.row(&COUNT, &params)?,
        Some(pipeline) => {
            params.push(text(pipeline));
            db.row(&COUNT_OF_PIPELINE, &params)?
        }
    };
    Ok(row.map(|row| row.int(0)).transpose()?.and_then(counted))
}

pub fn by_id(db: &mut impl Read, id: DeploymentId) -> Result<Option<Either>, StoreError> {
    match db.row(&IS_IN_ENVIRONMENT, &[text(id)])? {
        None => Ok(None),
        Some(row) => kind(db, id, row.maybe(0, Row::text)?.is_some()),
    }
}

/// The newest rollout of a pipeline.
pub fn latest(db: &mut impl Read, pipeline: PipelineId) -> Result<Option<Either>, StoreError> {
    let row = db.row(&LATEST, &[text(pipeline)])?;
    row.map_or(Ok(None), |row| load(db, &row))
}

fn load(db: &mut impl Read, row: &Row) -> Result<Option<Either>, StoreError> {
    let (id, in_environment) = (row.parse(0)?, row.maybe(1, Row::text)?.is_some());
    kind(db, id, in_environment)
}

fn kind(db: &mut impl Read, id: DeploymentId, in_environment: bool) -> Result<Option<Either>, StoreError> {
    Ok(match in_environment {
        true => deployment::by_id(db, id)?.map(|it| Either::Environment(Box::new(it))),
        false => rollout::by_id(db, id)?.map(|it| Either::Stages(Box::new(it))),
    })
}
