//! Object storage of an installation: binds one to the other, and moves logs and artifacts.

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use berth_core::id::OrgId;
use berth_engine::artifacts::ArtifactStore;
use berth_engine::logs::LogStore;
use berth_engine::object_storage::{ObjectStorage, ObjectTier, StorageError, StoredObject, unique_suffix};
use berth_engine::services::{ARTIFACT_BUFFER, LOG_BUFFER, OBJECT_CACHE};
use berth_store::tables::{artifact_object, instance, log_object, organization};
use berth_store::{Store, StoreError, TxContext};

use super::{KEPT, UpkeepError, io};

/// Object that says to which installation the objects belong, and which epoch of it may delete them.
const MARKER: &str = "berth-storage";
const MARKER_BYTES_MAX: u64 = 256;

/// Content of the marker: the id of the storage, and an epoch. A restored copy of an installation has the same id, but a
/// higher epoch.
#[derive(Default)]
struct StorageMarker {
    id: String,
    epoch: i64,
}
/// Number of artifacts listed at once.
const ARTIFACTS_PAGE: usize = 1_000;

/// What was moved so far.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct MigrationReport {
    pub logs: usize,
    pub artifacts: usize,
    /// Logs, artifacts and objects that an interrupted migration had moved already.
    pub skipped: usize,
    pub bytes: u64,
}

/// Checks that object storage works and belongs to this installation. On first use, claims it.
pub fn bind(store: &Store, data_dir: &Path, storage: Option<&ObjectStorage>) -> Result<(), UpkeepError> {
    let known = store.read_blocking(None, |db| instance::find_storage_id(db))?;
    let Some(storage) = storage else {
        return match known {
            None => Ok(()),
            Some(_) => Err(refused(
                "the logs and artifacts of this installation are in object storage: set storage.url (see docs/storage.md)",
            )),
        };
    };
    if has_local_files(data_dir)? {
        return Err(refused(format!(
            "{} has logs or artifacts that are not in object storage: run `berth admin storage migrate --to {}` first",
            data_dir.display(),
            storage.url(),
        )));
    }
    claim(store, storage)
}

/// Checks that object storage works and is not used by another installation, and marks it as used by this one.
fn claim(store: &Store, storage: &ObjectStorage) -> Result<(), UpkeepError> {
    let url = storage.url();
    let failed = |error: StorageError| refused(format!("cannot use {url}: {error}"));
    storage.check().map_err(failed)?;
    let found = read_marker(storage).map_err(failed)?;
    let known = store.read_blocking(None, |db| instance::find_storage_id(db))?;
    let epoch = store.read_blocking(None, |db| instance::load_epoch(db))?;
    match (known, found) {
        (Some(id), Some(found)) if id == found.id => {
            if found.epoch != epoch {
                storage.keep_objects();
                tracing::warn!(
                    epoch,
                    confirmed = found.epoch,
                    "no objects are deleted from object storage, because another copy of this database may use them; once none \
                     does, run `berth admin storage confirm`"
                );
            }
            Ok(())
        }
        (_, Some(_)) => {
            Err(refused(format!("{url} belongs to another installation; use another bucket or prefix")))
        }
        (Some(_), None) if has_rows(store)? => Err(refused(format!(
            "{url} does not have the logs and artifacts of this installation: correct storage.url, or move them there with \
             `berth admin storage migrate`"
        ))),
        (_, None) => {
            let new = unique_suffix().map_err(failed)?;
            let id = store
                .transact_blocking(TxContext::system(None), move |tx| instance::claim_storage_id(tx, &new))?;
            put_marker(storage, &StorageMarker { id, epoch }).map_err(failed)
        }
    }
}

/// Allows this installation to delete objects after its epoch was raised, because no other copy of it uses them.
pub fn confirm(store: &Store, storage: &ObjectStorage) -> Result<(), UpkeepError> {
    claim(store, storage)?;
    let known = store.read_blocking(None, |db| {
        Ok::<_, StoreError>((instance::find_storage_id(db)?, instance::load_epoch(db)?))
    })?;
    let (id, epoch) = (known.0.unwrap_or_default(), known.1);
    put_marker(storage, &StorageMarker { id, epoch }).map_err(|error| refused(error.to_string()))
}

fn read_marker(storage: &ObjectStorage) -> Result<Option<StorageMarker>, StorageError> {
    let found = storage.read_unverified(MARKER, MARKER_BYTES_MAX)?;
    Ok(found.map(|bytes| {
        let text = String::from_utf8_lossy(&bytes);
        let mut words = text.split(' ');
        let id = words.next().unwrap_or_default().to_owned();
        StorageMarker { id, epoch: words.next().and_then(|epoch| epoch.parse().ok()).unwrap_or_default() }
    }))
}

fn put_marker(storage: &ObjectStorage, marker: &StorageMarker) -> Result<(), StorageError> {
    storage.put(MARKER, format!("{} {}", marker.id, marker.epoch).into_bytes()).map(drop)
}

fn has_rows(store: &Store) -> Result<bool, UpkeepError> {
    Ok(store.read_blocking(None, |db| {
        Ok::<_, StoreError>(log_object::has_any(db)? || artifact_object::has_any(db)?)
    })?)
}

fn has_local_files(data_dir: &Path) -> Result<bool, UpkeepError> {
    for kept in KEPT {
        let dir = data_dir.join(kept);
        match std::fs::read_dir(&dir).map(|mut entries| entries.next().is_some()) {
            Ok(true) => return Ok(true),
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(io("cannot read", &dir)(error));
            }
            _ => {}
        }
    }
    Ok(false)
}

/// Moves logs and artifacts from the data directory to object storage. Can be interrupted and repeated. At the end, the
/// directories are renamed, so that an admin can delete them.
pub fn migrate_directory(
    store: &Arc<Store>,
    data_dir: &Path,
    to: &Arc<ObjectStorage>,
    mut progress: impl FnMut(&MigrationReport),
) -> Result<MigrationReport, UpkeepError> {
    claim(store, to)?;
    let tier = Arc::new(ObjectTier::new(to.clone(), data_dir.join(OBJECT_CACHE), store.clone()));
    let mut done = MigrationReport::default();
    let logs = LogStore::new(data_dir.join("logs"));
    let new_logs = LogStore::with_objects(data_dir.join(LOG_BUFFER), tier.clone());
    logs.for_each_log(|key| {
        match new_logs.import(&logs, key) {
            Ok(true) => done.logs += 1,
            Ok(false) => done.skipped += 1,
            Err(error) => {
                return Err(MigrationError(format!("log of {} in {}: {error}", key.step, key.deployment)));
            }
        }
        progress(&done);
        Ok(())
    })
    .map_err(|MigrationError(text)| refused(text))?;
    let artifacts = ArtifactStore::new(data_dir.join("artifacts"));
    let new_artifacts = ArtifactStore::with_objects(data_dir.join(ARTIFACT_BUFFER), tier);
    for org in list_organizations(store)? {
        let mut after = None::<String>;
        loop {
            let page =
                artifacts.list_older(org, SystemTime::UNIX_EPOCH + FOREVER, after.as_deref(), ARTIFACTS_PAGE);
            let page = page.map_err(|error| refused(error.to_string()))?;
            let Some(last) = page.last().cloned() else { break };
            for digest in page {
                let failed = |error| refused(format!("artifact {digest}: {error}"));
                if new_artifacts.contains(org, &digest).map_err(failed)? {
                    done.skipped += 1;
                } else {
                    let archive = artifacts.open_packed(org, &digest).map_err(failed)?;
                    done.bytes += archive.metadata().map_or(0, |info| info.len());
                    new_artifacts.store_archive(org, &digest, &archive).map_err(failed)?;
                    done.artifacts += 1;
                }
                progress(&done);
            }
            after = Some(last);
        }
    }
    for kept in KEPT {
        let (dir, moved) = (data_dir.join(kept), data_dir.join(format!("{kept}.migrated")));
        match std::fs::rename(&dir, &moved) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(io("cannot rename", &dir)(error));
            }
            _ => {}
        }
    }
    Ok(done)
}

/// Longer than any artifact has existed.
const FOREVER: std::time::Duration = std::time::Duration::from_secs(100 * 365 * 24 * 60 * 60);

struct MigrationError(String);

impl From<berth_engine::logs::LogError> for MigrationError {
    fn from(error: berth_engine::logs::LogError) -> Self {
        Self(error.to_string())
    }
}

/// Copies all objects of the installation to another storage, under the same names. Can be interrupted and repeated.
pub fn migrate_objects(
    store: &Store,
    from: &ObjectStorage,
    to: &ObjectStorage,
    mut progress: impl FnMut(&MigrationReport),
) -> Result<MigrationReport, UpkeepError> {
    let failed = |error: StorageError| refused(error.to_string());
    claim(store, from)?;
    to.check().map_err(failed)?;
    let (mark, found) = (read_marker(from).map_err(failed)?, read_marker(to).map_err(failed)?);
    let mark = mark.unwrap_or_default();
    if found.is_some_and(|found| found.id != mark.id) {
        return Err(refused(format!(
            "{} belongs to another installation; use another bucket or prefix",
            to.url()
        )));
    }
    let mut done = MigrationReport::default();
    for_each_object(store, |object, is_log| {
        if to.size_of(&object.name).map_err(failed)? == Some(object.bytes) {
            done.skipped += 1;
        } else {
            copy_object(from, to, object)?;
            done.bytes += object.bytes;
            *(if is_log { &mut done.logs } else { &mut done.artifacts }) += 1;
        }
        progress(&done);
        Ok(())
    })?;
    put_marker(to, &mark).map_err(failed)?;
    Ok(done)
}

fn copy_object(from: &ObjectStorage, to: &ObjectStorage, object: &StoredObject) -> Result<(), UpkeepError> {
    let failed = |error: StorageError| refused(error.to_string());
    let copy = tempfile::tempfile().map_err(|error| failed(error.into()))?;
    from.get_file(object, &copy).map_err(failed)?;
    match to.put_file(&object.name, &copy).map_err(failed)? == *object {
        true => Ok(()),
        false => Err(failed(StorageError::Corrupt(object.name.clone()))),
    }
}

/// Calls `each` for every object that the database refers to, and says whether it belongs to a log.
fn for_each_object(
    store: &Store,
    mut each: impl FnMut(&StoredObject, bool) -> Result<(), UpkeepError>,
) -> Result<(), UpkeepError> {
    for org in list_organizations(store)? {
        let mut after = None;
        loop {
            let from = after.take();
            let page = store.read_blocking(Some(org), move |db| log_object::list_page(db, from.as_ref()))?;
            for (_, it) in &page {
                each(&StoredObject::new(&it.object, &it.sha256, it.bytes), true)?;
            }
            let Some(last) = page.last() else { break };
            after = Some(last.clone());
        }
        let mut after = None::<String>;
        loop {
            let from = after.take();
            let page =
                store.read_blocking(Some(org), move |db| artifact_object::list_page(db, from.as_deref()))?;
            for it in &page {
                each(&StoredObject::new(&it.object, &it.sha256, it.bytes), false)?;
            }
            let Some(last) = page.last() else { break };
            after = Some(last.digest.clone());
        }
    }
    Ok(())
}

fn list_organizations(store: &Store) -> Result<Vec<OrgId>, UpkeepError> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let page = store.read_blocking(None, move |db| organization::list_ids(db, after))?;
        let Some((last, _)) = page.last() else { return Ok(all) };
        after = Some(*last);
        all.extend(page.into_iter().map(|(org, _)| org));
    }
}

fn refused(text: impl Into<String>) -> UpkeepError {
    UpkeepError::Refused(text.into())
}

#[cfg(test)]
mod tests {
    use berth_core::time::Timestamp;
    use berth_engine::object_storage::StorageSettings;

    use super::*;

    #[test]
    fn restored_installation_deletes_no_objects_until_it_is_confirmed() {
        let dir = tempfile::tempdir().unwrap();
        let open = || {
            let url = format!("file://{}/objects", dir.path().display()).parse().unwrap();
            let settings =
                StorageSettings { url, endpoint: None, region: None, credentials: None, cache_bytes_max: 0 };
            Arc::new(ObjectStorage::open(&settings).unwrap())
        };
        let mut store = Store::open_sqlite(&dir.path().join("berth.db")).unwrap();
        bind(&store, dir.path(), Some(&*open())).unwrap();
        let org = OrgId::from_parts(Timestamp::from_micros(1), [1; 10]);
        open().put(&format!("logs/{org}/x/part-1"), b"of another server".to_vec()).unwrap();
        // As a restore does.
        store.raise_epoch(None).unwrap();
        let store = Arc::new(store);
        let remove_orphans = || {
            let storage = open();
            bind(&store, dir.path(), Some(&*storage)).unwrap();
            let tier = ObjectTier::new(storage, dir.path().join("cache"), store.clone());
            tier.remove_orphans(Timestamp::from_micros(i64::MAX), 9).unwrap()
        };
        assert_eq!(remove_orphans(), 0);
        confirm(&store, &open()).unwrap();
        assert_eq!(remove_orphans(), 1);
    }
}
