//! Artifacts in object storage.

use berth_core::time::Timestamp;

use super::{PAGE_ROWS, first_after};
use crate::error::StoreError;
use crate::sql::{from_row, statements};
use crate::tx::{StoreRead, Tx};

statements! {
    Org Read BY_DIGEST = "SELECT digest, object, sha256, object_bytes, stored_at FROM artifact_objects
        WHERE org_id = $1 AND digest = $2";
    Instance Read ANY = "SELECT object FROM artifact_objects LIMIT 1";
    Org Read LOCK = "SELECT digest, object, sha256, object_bytes, stored_at FROM artifact_objects
        WHERE org_id = $1 AND digest = $2 {for_update}";
    Org Read BY_OBJECT = "SELECT object FROM artifact_objects WHERE org_id = $1 AND object = $2";
    // A concurrent store of the same artifact keeps the object that was recorded first.
    Org Upkeep INSERT = "INSERT INTO artifact_objects (org_id, digest, object, sha256, object_bytes, stored_at)
        VALUES ($1, $2, $3, $4, $5, $6)
        ON CONFLICT (org_id, digest) DO UPDATE SET stored_at = excluded.stored_at";
    Org Upkeep RENEW = "UPDATE artifact_objects SET stored_at = $3 WHERE org_id = $1 AND digest = $2";
    Org Upkeep DELETE = "DELETE FROM artifact_objects WHERE org_id = $1 AND digest = $2";
    Org Read OLD = "SELECT digest FROM artifact_objects
        WHERE org_id = $1 AND digest > $2 AND stored_at < $3 ORDER BY digest LIMIT $4";
    Org Read PAGE = "SELECT digest, object, sha256, object_bytes, stored_at FROM artifact_objects
        WHERE org_id = $1 AND digest > $2 ORDER BY digest LIMIT $3";
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtifactObject {
    pub digest: String,
    pub object: String,
    /// Digest of the object, which is compressed.
    pub sha256: String,
    pub bytes: i64,
    pub stored_at: Timestamp,
}
from_row!(ArtifactObject { digest, object, sha256, bytes, stored_at });

pub fn find(db: &mut impl StoreRead, digest: &str) -> Result<Option<ArtifactObject>, StoreError> {
    db.fetch_optional(&BY_DIGEST, &[digest.into()])
}

/// Like [`find`], and locks the row until the end of the transaction.
pub fn find_for_update(tx: &mut Tx<'_>, digest: &str) -> Result<Option<ArtifactObject>, StoreError> {
    tx.fetch_optional(&LOCK, &[digest.into()])
}

/// Whether any artifact is in object storage.
pub fn has_any(db: &mut impl StoreRead) -> Result<bool, StoreError> {
    Ok(db.row(&ANY, &[])?.is_some())
}

/// Whether an artifact refers to this object.
pub fn has_object(db: &mut impl StoreRead, object: &str) -> Result<bool, StoreError> {
    Ok(db.row(&BY_OBJECT, &[object.into()])?.is_some())
}

/// Records that an existing artifact was stored again. Returns false if it does not exist.
pub fn renew(tx: &mut Tx<'_>, digest: &str) -> Result<bool, StoreError> {
    let now = tx.now();
    Ok(tx.execute(&RENEW, &[digest.into(), now.into()])? == 1)
}

/// Inserts an artifact. If it already exists, only its time changes.
pub fn put(tx: &mut Tx<'_>, it: &ArtifactObject) -> Result<(), StoreError> {
    let (object, sha256) = (it.object.as_str(), it.sha256.as_str());
    let params =
        [it.digest.as_str().into(), object.into(), sha256.into(), it.bytes.into(), it.stored_at.into()];
    tx.execute_one(&INSERT, &params)
}

pub fn delete(tx: &mut Tx<'_>, digest: &str) -> Result<(), StoreError> {
    tx.execute_one(&DELETE, &[digest.into()])
}

/// Digests of artifacts that were last stored before this time, in order.
pub fn list_older(
    db: &mut impl StoreRead,
    before: Timestamp,
    after: Option<&str>,
    limit: i64,
) -> Result<Vec<String>, StoreError> {
    db.fetch_all(&OLD, &[first_after(after), before.into(), limit.into()])
}

/// All artifacts of the organization, one page at a time.
pub fn list_page(db: &mut impl StoreRead, after: Option<&str>) -> Result<Vec<ArtifactObject>, StoreError> {
    db.fetch_all(&PAGE, &[first_after(after), PAGE_ROWS.into()])
}
