//! Authors of the changes that a deployment brings into a stage. Derived from the repository, so no event is recorded.

use berth_core::approval::ChangeAuthors;
use berth_core::id::DeploymentId;

use crate::error::StoreError;
use crate::sql::value::text;
use crate::sql::{json_columns, statements};
use crate::tx::{StoreRead, Tx};

json_columns!(ChangeAuthors);

statements! {
    Org Read AUTHORS = "SELECT authors FROM change_authors WHERE org_id = $1 AND deployment_id = $2 AND stage = $3";
    Org Read BASE = "SELECT base FROM change_authors WHERE org_id = $1 AND deployment_id = $2 AND stage = $3";
    Org Upkeep PUT = "INSERT INTO change_authors (org_id, deployment_id, stage, base, authors) VALUES ($1, $2, $3, $4, $5)
        ON CONFLICT (org_id, deployment_id, stage) DO UPDATE SET base = excluded.base, authors = excluded.authors";
}

/// `None` if the authors were not determined yet.
pub fn load_of_stage(
    db: &mut impl StoreRead,
    deployment: DeploymentId,
    stage: &str,
) -> Result<Option<ChangeAuthors>, StoreError> {
    db.fetch_optional(&AUTHORS, &[text(deployment), stage.into()])
}

/// The commit that the stage had when the authors were determined: empty if it had none, `None` if they were not.
pub fn load_base(
    db: &mut impl StoreRead,
    deployment: DeploymentId,
    stage: &str,
) -> Result<Option<String>, StoreError> {
    db.fetch_optional(&BASE, &[text(deployment), stage.into()])
}

pub fn put(
    tx: &mut Tx<'_>,
    deployment: DeploymentId,
    stage: &str,
    base: &str,
    authors: &ChangeAuthors,
) -> Result<(), StoreError> {
    tx.put(&PUT, &(deployment, stage, base, authors))
}
