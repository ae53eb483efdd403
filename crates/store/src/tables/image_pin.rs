//! Digests that the images of a deployment are pinned to.

use berth_core::id::DeploymentId;

use crate::error::StoreError;
use crate::sql::statements;
use crate::sql::value::text;
use crate::tx::{StoreRead, Tx};

statements! {
    Org Read DIGEST = "SELECT digest FROM image_pins
        WHERE org_id = $1 AND deployment_id = $2 AND image = $3 {for_update}";
    Org Read COUNT = "SELECT CAST(COUNT(*) AS BIGINT) FROM image_pins WHERE org_id = $1 AND deployment_id = $2";
    Org Write INSERT = "INSERT INTO image_pins (org_id, deployment_id, image, digest) VALUES ($1, $2, $3, $4)";
}

/// The digest that an image of the deployment is pinned to.
pub fn find_digest(
    db: &mut impl StoreRead,
    deployment: DeploymentId,
    image: &str,
) -> Result<Option<String>, StoreError> {
    db.fetch_optional(&DIGEST, &[text(deployment), image.into()])
}

/// Number of pinned images of the deployment.
pub fn count(db: &mut impl StoreRead, deployment: DeploymentId) -> Result<i64, StoreError> {
    db.fetch_count(&COUNT, &[text(deployment)])
}

pub fn insert(
    tx: &mut Tx<'_>,
    deployment: DeploymentId,
    image: &str,
    digest: &str,
) -> Result<(), StoreError> {
    tx.execute_one(&INSERT, &[text(deployment), image.into(), digest.into()])
}
