//! Object storage for logs and artifacts: an S3-compatible service, or a directory that all servers can access.
//!
//! An object is written once, becomes visible completely or not at all, and never changes. The database says which
//! objects exist, and has the digest of each: a row is written after its object, and deleted before it. Objects without
//! a row are left over from interrupted operations, and a background job removes them. The methods block, so async code
//! calls them on a blocking thread.

mod cache;
mod client;
mod settings;
mod unfinished;

pub(crate) use cache::ObjectCache;
pub use client::{ListedObject, ObjectStorage};
pub use settings::{StorageCredentials, StorageSettings, StorageUrl};

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use berth_core::id::OrgId;
use berth_core::time::Timestamp;
use berth_store::{Store, StoreError};

/// Prefixes of object names. The organization follows, so that an object can be read only through a row of its
/// organization.
pub(crate) const LOGS: &str = "logs";
pub(crate) const ARTIFACTS: &str = "artifacts";

#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    #[error("object storage does not respond: {0}")]
    Unreachable(String),
    #[error("object storage refused the request: {0}; check its credentials and permissions")]
    Refused(String),
    #[error("object storage has no {0}")]
    Missing(String),
    #[error("the object {0} is not what was stored: it has another digest or size")]
    Corrupt(String),
    #[error("{0}")]
    Invalid(String),
    #[error("a file cannot be read or written: {0}")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Names an object, with what is needed to verify it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredObject {
    pub name: String,
    /// Digest of the object's bytes, hexadecimal.
    pub sha256: String,
    pub bytes: u64,
}

impl StoredObject {
    pub fn new(name: &str, sha256: &str, bytes: i64) -> Self {
        Self { name: name.to_owned(), sha256: sha256.to_owned(), bytes: bytes.unsigned_abs() }
    }
}

/// The object storage of this installation, with a local cache and the database that has its index.
pub struct ObjectTier {
    pub(crate) storage: Arc<ObjectStorage>,
    pub(crate) cache: ObjectCache,
    pub(crate) store: Arc<Store>,
}

impl ObjectTier {
    /// `cache_dir` must not be used by another server.
    pub fn new(storage: Arc<ObjectStorage>, cache_dir: PathBuf, store: Arc<Store>) -> Self {
        let cache = ObjectCache::new(cache_dir, storage.cache_bytes_max());
        Self { storage, cache, store }
    }

    /// Removes what an earlier process left unfinished in the cache.
    pub fn clean_cache(&self) -> Result<(), StorageError> {
        Ok(self.cache.clean()?)
    }

    pub fn storage(&self) -> &ObjectStorage {
        &self.storage
    }

    /// Opens a verified local copy of an object.
    pub(crate) fn open(&self, object: &StoredObject) -> Result<File, StorageError> {
        self.cache.open(&self.storage, object)
    }

    /// Deletes an object that no row refers to any more. If that fails or is not allowed, a background job deletes it
    /// later.
    pub(crate) fn discard(&self, name: &str) {
        self.cache.remove(name);
        if !self.storage.may_delete() {
            return;
        }
        if let Err(error) = self.storage.delete(name) {
            tracing::warn!(%error, object = name, "cannot delete an object");
        }
    }

    pub(crate) fn now(&self) -> Result<Timestamp, StorageError> {
        Ok(self.store.read_blocking(None, |db| Ok::<_, StoreError>(db.now()))?)
    }

    /// Deletes all objects of a deleted organization.
    pub fn remove_organization(&self, org: &str) -> Result<(), StorageError> {
        if !self.storage.may_delete() {
            return Ok(());
        }
        for kind in [LOGS, ARTIFACTS] {
            self.storage.list(&format!("{kind}/{org}"), |page| {
                page.iter().try_for_each(|object| self.storage.delete(&object.name))
            })?;
        }
        Ok(())
    }

    /// Deletes objects without a row that are older than `before`, at most `limit`. Returns how many. In a directory, also
    /// removes the files of interrupted writes.
    pub fn remove_orphans(&self, before: Timestamp, limit: usize) -> Result<usize, StorageError> {
        let mut removed = 0;
        if !self.storage.may_delete() {
            return Ok(removed);
        }
        if let StorageUrl::Directory(root) = self.storage.url() {
            let micros = u64::try_from(before.as_micros()).unwrap_or(0);
            unfinished::remove_unfinished(root, SystemTime::UNIX_EPOCH + Duration::from_micros(micros))?;
        }
        for kind in [LOGS, ARTIFACTS] {
            self.storage.list(kind, |page| {
                for object in page {
                    if removed < limit && object.modified < before && self.is_orphan(&object.name)? {
                        self.storage.delete(&object.name)?;
                        removed += 1;
                    }
                }
                Ok(())
            })?;
        }
        Ok(removed)
    }

    /// Whether no row refers to the object. Objects whose names Berth does not assign are left alone.
    fn is_orphan(&self, name: &str) -> Result<bool, StorageError> {
        use berth_store::tables::{artifact_object, log_object};
        let Some((kind, rest)) = name.split_once('/') else { return Ok(false) };
        let Some(Ok(org)) = rest.split('/').next().map(str::parse::<OrgId>) else { return Ok(false) };
        let (name, is_log) = (name.to_owned(), kind == LOGS);
        let is_known = self.store.read_blocking(Some(org), move |db| {
            if is_log { log_object::has_object(db, &name) } else { artifact_object::has_object(db, &name) }
        })?;
        Ok(!is_known)
    }
}

/// Returns a random suffix that makes an object's name unique.
pub fn unique_suffix() -> Result<String, StorageError> {
    let mut random = [0; 8];
    aws_lc_rs::rand::fill(&mut random).map_err(|_| io::Error::other("no random bytes"))?;
    Ok(crate::vault::hex(&random))
}

#[cfg(test)]
mod tests;
