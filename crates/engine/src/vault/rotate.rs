//! Rotates the root key while the server is running: rewraps all keys with the new root key, then replaces the key
//! file.
//!
//! The new key is stored on disk next to the old one before it wraps anything. A crash during the rotation leaves both
//! files, and the next start completes the rotation.

use std::path::{Path, PathBuf};

use berth_core::event::{EventKind, EventSubject, NewEvent};
use berth_store::tables::key::{self, DataKey};
use berth_store::{Store, TxContext};

use super::root::{RootKey, sync_parent, with_suffix};
use super::{INSTANCE_KEY, KeyError, SecretVault, load_instance_key, wrap_key};

/// The result of a rotation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RotationResult {
    pub root_key_id: String,
    pub data_keys: u64,
}

/// Loads the new root key of an interrupted rotation, if there is one.
pub(super) fn load_next_key(path: &Path) -> Result<Option<RootKey>, KeyError> {
    match RootKey::load(&next_key_path(path)) {
        Err(KeyError::Missing(_)) => Ok(None),
        other => other.map(Some),
    }
}

/// Whether a rotation of the key at this path was started but not completed.
pub fn is_being_rotated(path: &Path) -> bool {
    next_key_path(path).exists()
}

fn next_key_path(path: &Path) -> PathBuf {
    with_suffix(path, ".next")
}

impl SecretVault {
    pub(super) fn is_rotating(&self) -> bool {
        self.roots.read().next.is_some()
    }

    /// Rewraps all keys with a new root key. Blocks, so do not call it on an async worker thread.
    pub fn rotate(&self, store: &Store) -> Result<RotationResult, KeyError> {
        let _alone = self.rotation.lock();
        let next = RootKey::load_or_create(&next_key_path(&self.path))?;
        let id = next.id.clone();
        self.roots.write().next = Some(next);
        let mut data_keys = 0;
        loop {
            let done = self.rewrap_some(store, &id)?;
            if done == 0 {
                break;
            }
            data_keys += done;
        }
        self.rewrap_instance_key(store)?;
        let io = |source| KeyError::Io { path: self.path.clone(), source };
        std::fs::rename(next_key_path(&self.path), &self.path).map_err(io)?;
        let mut roots = self.roots.write();
        if let Some(next) = roots.next.take() {
            roots.current = next;
        }
        drop(roots);
        sync_parent(&self.path).map_err(io)?;
        tracing::info!(root_key_id = id, data_keys, "root key rotated");
        Ok(RotationResult { root_key_id: id, data_keys })
    }

    fn rewrap_some(&self, store: &Store, root_key_id: &str) -> Result<u64, KeyError> {
        let wanted = root_key_id.to_owned();
        let due = store.transact_blocking(TxContext::system(None), move |tx| {
            key::list_of_other_roots(tx, &wanted).map_err(KeyError::from)
        })?;
        let count = due.len() as u64;
        for (org, found) in due {
            let fresh = self.rewrap_key(&found, &org.to_string())?;
            let id = root_key_id.to_owned();
            store.transact_blocking(TxContext::system(Some(org)), move |tx| {
                key::rewrap(tx, fresh.id, &fresh.wrapped)?;
                let event =
                    NewEvent::new(EventKind::RootKeyRotated, EventSubject::new("data_key", fresh.id, None));
                Ok::<_, KeyError>(tx.record(event.with("rootKeyId", id))?)
            })?;
        }
        Ok(count)
    }

    fn rewrap_key(&self, found: &DataKey, org: &str) -> Result<DataKey, KeyError> {
        let roots = self.roots.read();
        let id = found.id.to_string();
        let bound_to = [org, id.as_str()];
        let plain = roots.unwrap(&found.wrapped, &bound_to)?;
        Ok(DataKey { id: found.id, wrapped: wrap_key(roots.wrapping_key(), &plain, &bound_to)? })
    }

    fn rewrap_instance_key(&self, store: &Store) -> Result<(), KeyError> {
        let found = load_instance_key(store)?;
        let roots = self.roots.read();
        let plain = roots.unwrap(&found.ok_or(KeyError::Damaged)?, INSTANCE_KEY)?;
        let fresh = wrap_key(roots.wrapping_key(), &plain, INSTANCE_KEY)?;
        drop(roots);
        store.transact_blocking(TxContext::system(None), move |tx| {
            key::put_instance_key(tx, &fresh).map_err(KeyError::from)
        })
    }
}
