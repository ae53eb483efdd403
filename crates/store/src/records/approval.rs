//! Approvals: what people are asked, and what they answered.

use berth_core::approval::{Approval, Lapse, Status};
use berth_core::id::ApprovalId;
use berth_core::pipeline::model::Requires;

use crate::error::StoreError;
use crate::sql::statements;
use crate::tx::{Read, Tx};
use crate::value::{Row, text, to_json};

statements! {
    Org Read BY_ID = "SELECT id, deployment_id, pipeline_id, stage, step_id, rule, message, digest, votes, status, lapse,
          requested_at, expires_at, ended_at, version,
          (SELECT d.number FROM deployments d WHERE d.org_id = approvals.org_id AND d.id = approvals.deployment_id), needed
        FROM approvals WHERE org_id = $1 AND id = $2 {for_update}";
    Org Write PUT = "INSERT INTO approvals (org_id, id, deployment_id, pipeline_id, stage, step_id, rule, message, digest,
          votes, status, lapse, requested_at, expires_at, ended_at, version, needed)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)
        ON CONFLICT (org_id, id) DO UPDATE SET votes = excluded.votes, status = excluded.status,
          lapse = excluded.lapse, ended_at = excluded.ended_at, version = excluded.version, needed = excluded.needed
        WHERE approvals.version = excluded.version - 1";
}

pub(crate) fn read(row: &Row) -> Result<Approval, StoreError> {
    let status = match row.text(9)? {
        "pending" => Status::Pending,
        "approved" => Status::Approved,
        "rejected" => Status::Rejected,
        "expired" => Status::Expired,
        "lapsed" => {
            let word = row.text(10)?;
            let why = Lapse::ALL.into_iter().find(|why| why.as_str() == word);
            Status::Lapsed(why.ok_or_else(|| StoreError::Bug(format!("unknown lapse {word}")))?)
        }
        other => return Err(StoreError::Bug(format!("unknown status {other}"))),
    };
    let rule: Requires = row.json(5)?;
    let needed = row.maybe(16, Row::int)?.and_then(|it| u32::try_from(it).ok());
    Ok(Approval {
        id: row.parse(0)?,
        deployment: row.parse(1)?,
        number: row.int(15)?,
        pipeline: row.parse(2)?,
        stage: row.text(3)?.to_owned(),
        step: row.maybe(4, Row::parse)?,
        needed: needed.unwrap_or(rule.approvals),
        rule,
        message: row.maybe(6, Row::text)?.map(str::to_owned),
        digest: row.text(7)?.to_owned(),
        votes: row.json(8)?,
        status,
        requested_at: row.time(11)?,
        expires_at: row.maybe(12, Row::time)?,
        ended_at: row.maybe(13, Row::time)?,
        version: row.int(14)?,
    })
}

pub fn by_id(db: &mut impl Read, id: ApprovalId) -> Result<Option<Approval>, StoreError> {
    db.row(&BY_ID, &[text(id)])?.as_ref().map(read).transpose()
}

pub(crate) fn put(tx: &mut Tx<'_>, it: &Approval) -> Result<(), StoreError> {
    let lapse = match it.status {
        Status::Lapsed(why) => Some(why.as_str()),
        Status::Pending | Status::Approved | Status::Rejected | Status::Expired => None,
    };
    let params = [
        text(it.id),
        text(it.deployment),
        text(it.pipeline),
        it.stage.as_str().into(),
        it.step.map(text).into(),
        to_json(&it.rule)?.into(),
        it.message.as_deref().into(),
        it.digest.as_str().into(),
        to_json(&it.votes)?.into(),
        it.status.as_str().into(),
        lapse.into(),
        it.requested_at.into(),
        it.expires_at.into(),
        it.ended_at.into(),
        it.version.into(),
        (it.needed != it.rule.approvals).then_some(i64::from(it.needed)).into(),
    ];
    tx.execute_one(&PUT, &params)
}
