//! Artifacts in object storage. The database maps the digest of an artifact to its object. An artifact that is stored
//! again keeps its object; a removed one gets a new object, so removing and storing it at the same time is safe.

use std::fs::File;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use berth_core::id::OrgId;
use berth_core::time::Timestamp;
use berth_store::tables::artifact_object::{self, ArtifactObject};
use berth_store::{StoreError, TxContext};

use super::ArtifactError;
use crate::object_storage::{ARTIFACTS, ObjectTier, StorageError, StoredObject, unique_suffix};

#[derive(Clone)]
pub(super) struct ArtifactObjects(pub(super) Arc<ObjectTier>);

impl ArtifactObjects {
    fn find(&self, org: OrgId, digest: &str) -> Result<Option<ArtifactObject>, ArtifactError> {
        let digest = digest.to_owned();
        let found = self.0.store.read_blocking(Some(org), move |db| artifact_object::find(db, &digest));
        Ok(found.map_err(StorageError::from)?)
    }

    pub(super) fn contains(&self, org: OrgId, digest: &str) -> Result<bool, ArtifactError> {
        Ok(self.find(org, digest)?.is_some())
    }

    pub(super) fn size_of(&self, org: OrgId, digest: &str) -> Result<Option<u64>, ArtifactError> {
        Ok(self.find(org, digest)?.map(|found| found.bytes.unsigned_abs()))
    }

    /// Opens a verified local copy of the artifact's archive.
    pub(super) fn open(&self, org: OrgId, digest: &str) -> Result<File, ArtifactError> {
        let found = self.find(org, digest)?.ok_or_else(|| ArtifactError::Unknown(digest.to_owned()))?;
        Ok(self.0.open(&StoredObject::new(&found.object, &found.sha256, found.bytes))?)
    }

    /// Stores an archive, unless there is one with this digest. Records it after its object is complete.
    pub(super) fn store(&self, org: OrgId, digest: &str, archive: &File) -> Result<(), ArtifactError> {
        if let Some(found) = self.find(org, digest)? {
            let is_there = self.0.storage.contains(&found.object)?;
            if is_there && self.renew(org, digest)? {
                return Ok(());
            }
            if !is_there {
                tracing::error!(
                    object = found.object,
                    "object of an artifact is missing; it is stored again"
                );
                self.delete(org, digest, None)?;
            }
        }
        let hex = digest.trim_start_matches("sha256:");
        let object =
            self.0.storage.put_file(&format!("{ARTIFACTS}/{org}/{hex}-{}", unique_suffix()?), archive)?;
        let row = ArtifactObject {
            digest: digest.to_owned(),
            object: object.name.clone(),
            sha256: object.sha256,
            bytes: i64::try_from(object.bytes).unwrap_or(i64::MAX),
            stored_at: self.0.now()?,
        };
        let kept = self.0.store.transact_blocking(TxContext::system(Some(org)), move |tx| {
            artifact_object::put(tx, &row)?;
            artifact_object::find(tx, &row.digest)
        });
        let kept = kept.map_err(StorageError::from)?;
        if kept.is_none_or(|kept| kept.object != object.name) {
            // Another server has stored the same artifact in the meantime.
            self.0.discard(&object.name);
        }
        Ok(())
    }

    fn renew(&self, org: OrgId, digest: &str) -> Result<bool, ArtifactError> {
        let digest = digest.to_owned();
        let renewed = self
            .0
            .store
            .transact_blocking(TxContext::system(Some(org)), move |tx| artifact_object::renew(tx, &digest));
        Ok(renewed.map_err(StorageError::from)?)
    }

    pub(super) fn list_older(
        &self,
        org: OrgId,
        limit: SystemTime,
        after: Option<&str>,
        count: usize,
    ) -> Result<Vec<String>, ArtifactError> {
        let (limit, after) = (to_timestamp(limit), after.map(str::to_owned));
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let found = self.0.store.read_blocking(Some(org), move |db| {
            artifact_object::list_older(db, limit, after.as_deref(), count)
        });
        Ok(found.map_err(StorageError::from)?)
    }

    /// Removes an artifact that was last stored before `limit`.
    pub(super) fn remove_older(
        &self,
        org: OrgId,
        digest: &str,
        limit: SystemTime,
    ) -> Result<bool, ArtifactError> {
        let removed = self.delete(org, digest, Some(to_timestamp(limit)))?;
        if let Some(object) = &removed {
            self.0.discard(object);
        }
        Ok(removed.is_some())
    }

    /// Deletes the row of an artifact and returns the name of its object. With a limit, only if the artifact was last
    /// stored before it.
    fn delete(
        &self,
        org: OrgId,
        digest: &str,
        limit: Option<Timestamp>,
    ) -> Result<Option<String>, ArtifactError> {
        let digest = digest.to_owned();
        let deleted = self.0.store.transact_blocking(TxContext::system(Some(org)), move |tx| {
            let found = artifact_object::find_for_update(tx, &digest)?;
            let Some(found) = found.filter(|it| limit.is_none_or(|limit| it.stored_at < limit)) else {
                return Ok(None);
            };
            artifact_object::delete(tx, &digest)?;
            Ok::<_, StoreError>(Some(found.object))
        });
        Ok(deleted.map_err(StorageError::from)?)
    }
}

fn to_timestamp(time: SystemTime) -> Timestamp {
    let micros = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
    Timestamp::from_micros(i64::try_from(micros).unwrap_or(i64::MAX))
}
