//! Approvals and the votes on them.

use berth_core::approval::{Approval, ApprovalState, LapseCause, RecordedVote};
use berth_core::id::{ApprovalId, DeploymentId, OrgId, StepRunId};
use berth_core::pipeline::model::ApprovalPolicy;
use berth_core::time::Timestamp;

use super::first_after;
use crate::error::StoreError;
use crate::pagination::{ListPage, PageStart, fetch_page};
use crate::sql::value::{SqlValue, text};
use crate::sql::{
    FromRow, RowReader, SqlText, TableColumns, ToParams, json_columns, sql, statements, word_columns,
};
use crate::tx::{StoreRead, Tx};

/// Not declared with `table!`, because two fields are not plain columns: the number comes from the deployment, and
/// `needed` is stored only if it differs from the number in the rule.
const TABLE: TableColumns = TableColumns {
    name: "approvals",
    owner: "org_id,",
    key: "id,",
    update: "votes,status,lapse,ended_at,version,needed,",
    derived: "",
    insert: "deployment_id,pipeline_id,stage,step_id,rule,message,digest,requested_at,expires_at,",
    read: "",
};
json_columns!(ApprovalPolicy, Vec<RecordedVote>);
word_columns!(LapseCause: LapseCause::ALL);

const fn select(first: &str, condition: &str) -> SqlText {
    let number = "(SELECT d.number FROM deployments d WHERE d.org_id = a.org_id AND d.id = a.deployment_id)";
    let text = sql("SELECT ").then(first).columns(&TABLE, "a").then(", ").then(number);
    text.then(" FROM approvals a WHERE ").then(condition)
}

statements! {
    Org Read BY_ID => select("", "a.org_id = $1 AND a.id = $2 {for_update}");
    Org Write PUT => TABLE.upsert("WHERE approvals.version = excluded.version - 1");
    Org Read ALL => select("", "a.org_id = $1 AND ($2 = '' OR a.id < $2) ORDER BY a.id DESC LIMIT $3 OFFSET $4");
    Org Read OF_STATUS => select("",
        "a.org_id = $1 AND a.status = $2 AND ($3 = '' OR a.id < $3) ORDER BY a.id DESC LIMIT $4 OFFSET $5");
    Org Read OF_DEPLOYMENT => select("", "a.org_id = $1 AND a.deployment_id = $2 AND ($3 = '' OR a.status = $3)
        AND ($4 = '' OR a.id < $4) ORDER BY a.id DESC LIMIT $5 OFFSET $6");
    Org Read LATEST => select("", "a.org_id = $1 AND a.deployment_id = $2 AND a.stage = $3 AND COALESCE(a.step_id, '') = $4
        ORDER BY a.id DESC LIMIT 1");
    Org Read OPEN => select("", "a.org_id = $1 AND a.deployment_id = $2 AND a.status = 'pending' ORDER BY a.id");
    Org Read WAS_APPROVED = "SELECT id FROM approvals
        WHERE org_id = $1 AND deployment_id = $2 AND stage = $3 AND step_id IS NULL AND status = 'approved' LIMIT 1";
    Instance Read PENDING => select("a.org_id, ", "a.status = 'pending' AND a.id > $1 ORDER BY a.id LIMIT $2");
    Instance Read DUE = "SELECT org_id, id FROM approvals
        WHERE status = 'pending' AND expires_at IS NOT NULL AND expires_at <= $1 ORDER BY expires_at LIMIT $2";
}

#[derive(Debug, Clone, Default)]
pub struct ApprovalFilter {
    /// A status as written in the API.
    pub status: Option<String>,
    pub deployment: Option<DeploymentId>,
}

impl FromRow for Approval {
    fn from_row(row: &mut RowReader) -> Result<Self, StoreError> {
        let (id, votes, status, ended_at, version) = row.take()?;
        let needed: Option<u32> = row.take()?;
        let (deployment, pipeline, stage, step) = row.take()?;
        let (rule, message, digest): (ApprovalPolicy, _, _) = row.take()?;
        let (requested_at, expires_at, number) = row.take()?;
        let needed = needed.unwrap_or(rule.approvals);
        Ok(Approval {
            id,
            deployment,
            number,
            pipeline,
            stage,
            step,
            rule,
            needed,
            message,
            digest,
            votes,
            status,
            requested_at,
            expires_at,
            ended_at,
            version,
        })
    }
}

impl ToParams for Approval {
    fn to_params(&self, params: &mut Vec<SqlValue>) -> Result<(), StoreError> {
        let needed = (self.needed != self.rule.approvals).then_some(self.needed);
        (self.id, &self.votes, self.status, self.ended_at, self.version, needed).to_params(params)?;
        (self.deployment, self.pipeline, &self.stage, self.step).to_params(params)?;
        (&self.rule, &self.message, &self.digest, self.requested_at, self.expires_at).to_params(params)
    }
}

impl FromRow for ApprovalState {
    fn from_row(row: &mut RowReader) -> Result<Self, StoreError> {
        let (status, lapse): (String, Option<LapseCause>) = row.take()?;
        Ok(match (status.as_str(), lapse) {
            ("pending", _) => ApprovalState::Pending,
            ("approved", _) => ApprovalState::Approved,
            ("rejected", _) => ApprovalState::Rejected,
            ("expired", _) => ApprovalState::Expired,
            ("lapsed", Some(why)) => ApprovalState::Lapsed(why),
            _ => return Err(StoreError::Bug(format!("unknown status {status}"))),
        })
    }
}

impl ToParams for ApprovalState {
    fn to_params(&self, params: &mut Vec<SqlValue>) -> Result<(), StoreError> {
        let lapse = if let ApprovalState::Lapsed(why) = self { Some(*why) } else { None };
        (self.as_str(), lapse).to_params(params)
    }
}

pub fn by_id(db: &mut impl StoreRead, id: ApprovalId) -> Result<Option<Approval>, StoreError> {
    db.fetch_optional(&BY_ID, &[text(id)])
}

pub(crate) fn put(tx: &mut Tx<'_>, approval: &Approval) -> Result<(), StoreError> {
    tx.put(&PUT, approval)
}

/// Lists approvals, newest first.
pub fn list(
    db: &mut impl StoreRead,
    filter: &ApprovalFilter,
    from: &PageStart,
    limit: i64,
) -> Result<ListPage<Approval>, StoreError> {
    match (filter.deployment, filter.status.as_deref()) {
        (Some(deployment), status) => {
            let filter = [text(deployment), status.unwrap_or_default().into()];
            fetch_page(db, &OF_DEPLOYMENT, &filter, from.by_id(), limit)
        }
        (None, Some(status)) => fetch_page(db, &OF_STATUS, &[status.into()], from.by_id(), limit),
        (None, None) => fetch_page(db, &ALL, &[], from.by_id(), limit),
    }
}

/// The latest approval that was requested for a stage or, if `step` is set, for that step of the stage.
pub fn find_latest(
    db: &mut impl StoreRead,
    deployment: DeploymentId,
    stage: &str,
    step: Option<StepRunId>,
) -> Result<Option<Approval>, StoreError> {
    let step = step.map(|step| step.to_string()).unwrap_or_default();
    db.fetch_optional(&LATEST, &[text(deployment), stage.into(), step.into()])
}

/// Pending approvals of a deployment.
pub fn list_pending(db: &mut impl StoreRead, deployment: DeploymentId) -> Result<Vec<Approval>, StoreError> {
    db.fetch_all(&OPEN, &[text(deployment)])
}

/// Whether the deployment was ever approved for this stage.
pub fn was_approved(
    db: &mut impl StoreRead,
    deployment: DeploymentId,
    stage: &str,
) -> Result<bool, StoreError> {
    Ok(db.row(&WAS_APPROVED, &[text(deployment), stage.into()])?.is_some())
}

/// Pending approvals of all organizations, ordered by id. Starts after the given id.
pub fn list_pending_everywhere(
    db: &mut impl StoreRead,
    after: Option<ApprovalId>,
    limit: i64,
) -> Result<Vec<(OrgId, Approval)>, StoreError> {
    db.fetch_all(&PENDING, &[first_after(after), limit.into()])
}

/// Pending approvals that have expired.
pub fn list_expired(
    db: &mut impl StoreRead,
    now: Timestamp,
    limit: i64,
) -> Result<Vec<(OrgId, ApprovalId)>, StoreError> {
    db.fetch_all(&DUE, &[now.into(), limit.into()])
}
