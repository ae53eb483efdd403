//! Lists of approvals, newest first; what waits, what is due, and what was approved.

use berth_core::approval::Approval;
use berth_core::id::{ApprovalId, DeploymentId, OrgId, StepRunId};
use berth_core::time::Timestamp;

use super::{From, Slice};
use crate::error::StoreError;
use crate::records::approval::read;
use crate::sql::statements;
use crate::tx::Read;
use crate::value::text;

#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// A status word.
    pub status: Option<String>,
    pub deployment: Option<DeploymentId>,
}

statements! {
    Org Read ALL = "SELECT id, deployment_id, pipeline_id, stage, step_id, rule, message, digest, votes, status, lapse,
          requested_at, expires_at, ended_at, version,
          (SELECT d.number FROM deployments d WHERE d.org_id = approvals.org_id AND d.id = approvals.deployment_id), needed
        FROM approvals WHERE org_id = $1 AND ($2 = '' OR id < $2) ORDER BY id DESC LIMIT $3 OFFSET $4";
    Org Read OF_STATUS = "SELECT id, deployment_id, pipeline_id, stage, step_id, rule, message, digest, votes, status,
          lapse, requested_at, expires_at, ended_at, version,
          (SELECT d.number FROM deployments d WHERE d.org_id = approvals.org_id AND d.id = approvals.deployment_id), needed
        FROM approvals WHERE org_id = $1 AND status = $5 AND ($2 = '' OR id < $2) ORDER BY id DESC LIMIT $3 OFFSET $4";
    Org Read OF_DEPLOYMENT = "SELECT id, deployment_id, pipeline_id, stage, step_id, rule, message, digest, votes, status,
          lapse, requested_at, expires_at, ended_at, version,
          (SELECT d.number FROM deployments d WHERE d.org_id = approvals.org_id AND d.id = approvals.deployment_id), needed
        FROM approvals WHERE org_id = $1 AND deployment_id = $5 AND ($6 = '' OR status = $6) AND ($2 = '' OR id < $2)
        ORDER BY id DESC LIMIT $3 OFFSET $4";
    Org Read LATEST = "SELECT id, deployment_id, pipeline_id, stage, step_id, rule, message, digest, votes, status, lapse,
          requested_at, expires_at, ended_at, version,
          (SELECT d.number FROM deployments d WHERE d.org_id = approvals.org_id AND d.id = approvals.deployment_id), needed
        FROM approvals WHERE org_id = $1 AND deployment_id = $2 AND stage = $3 AND COALESCE(step_id, '') = $4
        ORDER BY id DESC LIMIT 1";
    Org Read OPEN = "SELECT id, deployment_id, pipeline_id, stage, step_id, rule, message, digest, votes, status, lapse,
          requested_at, expires_at, ended_at, version,
          (SELECT d.number FROM deployments d WHERE d.org_id = approvals.org_id AND d.id = approvals.deployment_id), needed
        FROM approvals WHERE org_id = $1 AND deployment_id = $2 AND status = 'pending' ORDER BY id";
    Org Read WAS_APPROVED = "SELECT id FROM approvals
        WHERE org_id = $1 AND deployment_id = $2 AND stage = $3 AND step_id IS NULL AND status = 'approved' LIMIT 1";
    Instance Read PENDING = "SELECT id, deployment_id, pipeline_id, stage, step_id, rule, message, digest, votes, status,
          lapse, requested_at, expires_at, ended_at, version,
          (SELECT d.number FROM deployments d WHERE d.org_id = approvals.org_id AND d.id = approvals.deployment_id), needed,
          org_id
        FROM approvals WHERE status = 'pending' AND id > $1 ORDER BY id LIMIT $2";
    Instance Read DUE = "SELECT org_id, id FROM approvals
        WHERE status = 'pending' AND expires_at IS NOT NULL AND expires_at <= $1 ORDER BY expires_at LIMIT $2";
}

pub fn list(
    db: &mut impl Read,
    filter: &Filter,
    from: &From,
    limit: i64,
) -> Result<Slice<Approval>, StoreError> {
    let (after, offset) = match from {
        From::After(id) => (id.as_str(), 0),
        From::Offset(offset) => ("", *offset),
    };
    let mut params = vec![after.into(), (limit + 1).into(), offset.into()];
    let rows = match (filter.deployment, filter.status.as_deref()) {
        (Some(deployment), status) => {
            params.extend([text(deployment), status.unwrap_or_default().into()]);
            db.rows(&OF_DEPLOYMENT, &params)?
        }
        (None, Some(status)) => {
            params.push(status.into());
            db.rows(&OF_STATUS, &params)?
        }
        (None, None) => db.rows(&ALL, &params)?,
    };
    Ok(Slice::cut(rows.iter().map(read).collect::<Result<_, _>>()?, limit, None))
}

/// The last one that was asked for a stage, or for a step of it.
pub fn latest(
    db: &mut impl Read,
    deployment: DeploymentId,
    stage: &str,
    step: Option<StepRunId>,
) -> Result<Option<Approval>, StoreError> {
    let step = step.map(|step| step.to_string()).unwrap_or_default();
    let row = db.row(&LATEST, &[text(deployment), stage.into(), step.into()])?;
    row.as_ref().map(read).transpose()
}

/// Those of a deployment that wait for an answer.
pub fn open(db: &mut impl Read, deployment: DeploymentId) -> Result<Vec<Approval>, StoreError> {
    db.rows(&OPEN, &[text(deployment)])?.iter().map(read).collect()
}

/// Whether people have approved this deployment for this stage.
pub fn was_approved(db: &mut impl Read, deployment: DeploymentId, stage: &str) -> Result<bool, StoreError> {
    Ok(db.row(&WAS_APPROVED, &[text(deployment), stage.into()])?.is_some())
}

/// Those of all organizations that wait for answers, oldest first; `after` is where the page before ended.
pub fn pending(
    db: &mut impl Read,
    after: Option<ApprovalId>,
    limit: i64,
) -> Result<Vec<(OrgId, Approval)>, StoreError> {
    let after = after.map(|id| id.to_string()).unwrap_or_default();
    let rows = db.rows(&PENDING, &[after.into(), limit.into()])?;
    rows.iter().map(|row| Ok((row.parse(17)?, read(row)?))).collect()
}

/// Those whose time is over.
pub fn due(db: &mut impl Read, now: Timestamp, limit: i64) -> Result<Vec<(OrgId, ApprovalId)>, StoreError> {
    db.rows(&DUE, &[now.into(), limit.into()])?.iter().map(|row| Ok((row.parse(0)?, row.parse(1)?))).collect()
}
