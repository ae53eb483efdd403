//! Authors of what a deployment brings into a stage. They follow from the repository, and are bookkeeping.

use berth_core::approval::ChangeAuthors;
use berth_core::id::DeploymentId;

use crate::error::StoreError;
use crate::sql::statements;
use crate::tx::{Read, Tx};
use crate::value::{text, to_json};

statements! {
    Org Read AUTHORS = "SELECT authors FROM change_authors WHERE org_id = $1 AND deployment_id = $2 AND stage = $3";
    Org Read BASE = "SELECT base FROM change_authors WHERE org_id = $1 AND deployment_id = $2 AND stage = $3";
    Org Upkeep PUT = "INSERT INTO change_authors (org_id, deployment_id, stage, base, authors) VALUES ($1, $2, $3, $4, $5)
        ON CONFLICT (org_id, deployment_id, stage) DO UPDATE SET base = excluded.base, authors = excluded.authors";
}

/// `None`: they were not read.
pub fn by_stage(
    db: &mut impl Read,
    deployment: DeploymentId,
    stage: &str,
) -> Result<Option<ChangeAuthors>, StoreError> {
    db.row(&AUTHORS, &[text(deployment), stage.into()])?.map(|row| row.json(0)).transpose()
}

/// The commit since which they were read: what the stage had then. Empty where it had none; `None`: they were not read.
pub fn base(db: &mut impl Read, deployment: DeploymentId, stage: &str) -> Result<Option<String>, StoreError> {
    let row = db.row(&BASE, &[text(deployment), stage.into()])?;
    row.map(|row| Ok(row.text(0)?.to_owned())).transpose()
}

pub fn put(
    tx: &mut Tx<'_>,
    deployment: DeploymentId,
    stage: &str,
    base: &str,
    authors: &ChangeAuthors,
) -> Result<(), StoreError> {
    let params = [text(deployment), stage.into(), base.into(), to_json(authors)?.into()];
    tx.execute_one(&PUT, &params)
}
