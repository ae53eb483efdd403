//! Authors of the changes that a deployment brings to a stage. They can be determined again from the repository, so
//! storing them records no event.

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

/// The authors of the change. `None` if they have not been determined yet.
pub fn load_of_stage(
    db: &mut impl StoreRead,
    deployment: DeploymentId,
    stage: &str,
) -> Result<Option<ChangeAuthors>, StoreError> {
    db.fetch_optional(&AUTHORS, &[text(deployment), stage.into()])
}

/// The commit that was deployed in the stage when the authors were determined. Empty if there was none. `None` if the
/// authors have not been determined yet.
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
