//! The objects of one log: parts while it grows, then the sealed log.

use std::fs::File;
use std::sync::Arc;

use berth_core::time::Timestamp;
use berth_store::tables::log_object::{self, LOG_OBJECTS_MAX, LogObject, StoredLogKey};
use berth_store::{StoreError, TxContext};
use tempfile::NamedTempFile;

use super::{LogError, LogKey, LogStream};
use crate::object_storage::{LOGS, ObjectTier, StorageError, StoredObject, unique_suffix};

/// How often a read is repeated because its object was replaced by a larger one.
const READS_MAX: usize = 3;

pub(super) struct LogObjects {
    key: LogKey,
    tier: Arc<ObjectTier>,
}

impl From<&LogKey> for StoredLogKey {
    fn from(key: &LogKey) -> Self {
        let LogKey { deployment, step, attempt, stream, .. } = *key;
        Self { deployment, step, attempt, is_after_fence: stream == LogStream::AfterFence }
    }
}

impl LogObjects {
    pub(super) fn new(key: LogKey, tier: Arc<ObjectTier>) -> Self {
        Self { key, tier }
    }

    /// The objects with bytes after `offset`, in order, or only the sealed one.
    pub(super) fn list_after(&self, offset: u64) -> Result<Vec<LogObject>, LogError> {
        let (key, offset) = (StoredLogKey::from(&self.key), i64::try_from(offset).unwrap_or(i64::MAX));
        Ok(self.tier.store.read_blocking(Some(self.key.org), move |db| {
            log_object::list_after(db, &key, offset, LOG_OBJECTS_MAX)
        })?)
    }

    pub(super) fn find_sealed(&self) -> Result<Option<StoredObject>, LogError> {
        let last = self.find_last()?.filter(|it| it.is_sealed);
        Ok(last.map(|it| StoredObject::new(&it.object, &it.sha256, it.bytes)))
    }

    pub(super) fn find_last(&self) -> Result<Option<LogObject>, LogError> {
        let key = StoredLogKey::from(&self.key);
        Ok(self.tier.store.read_blocking(Some(self.key.org), move |db| log_object::find_last(db, &key))?)
    }

    /// The length of the log that the runner reported. Output after a takeover counts too, although it is in another
    /// log.
    pub(super) fn reported_length(&self) -> Result<u64, LogError> {
        if self.key.stream == LogStream::AfterFence {
            return Ok(0);
        }
        let after =
            LogObjects { key: LogKey { stream: LogStream::AfterFence, ..self.key }, tier: self.tier.clone() };
        let after = after.find_last()?.map_or(0, |last| last.end);
        let key = StoredLogKey::from(&self.key);
        let reported = self
            .tier
            .store
            .read_blocking(Some(self.key.org), move |db| log_object::find_reported_length(db, &key))?;
        Ok(u64::try_from(reported - after).unwrap_or(0))
    }

    /// Reads an unsealed object. `None` if it was replaced in the meantime.
    pub(super) fn read(&self, object: &LogObject) -> Result<Option<Vec<u8>>, LogError> {
        match self.tier.storage.get(&StoredObject::new(&object.object, &object.sha256, object.bytes)) {
            Ok(bytes) if bytes.len() as i64 == object.end - object.start => Ok(Some(bytes)),
            Ok(_) => Err(LogError::Corrupt("an object has another size")),
            Err(StorageError::Missing(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens a verified copy of the sealed log.
    pub(super) fn open(&self, object: &StoredObject) -> Result<File, LogError> {
        Ok(self.tier.open(object)?)
    }

    /// Opens the sealed log, if it is sealed. Retention may replace the object at any time.
    pub(super) fn open_sealed(&self) -> Result<Option<File>, LogError> {
        for _ in 0..READS_MAX {
            let Some(object) = self.find_sealed()? else { return Ok(None) };
            match self.tier.open(&object) {
                Err(StorageError::Missing(_)) => {}
                opened => return Ok(Some(opened?)),
            }
        }
        Err(LogError::Corrupt("its object is missing"))
    }

    /// Puts a part of the log that follows `last`, or replaces it. Returns `None` if another server has changed the log.
    pub(super) fn put_part(
        &self,
        last: Option<&LogObject>,
        start: u64,
        bytes: Vec<u8>,
    ) -> Result<Option<LogObject>, LogError> {
        let end = start + bytes.len() as u64;
        let object = self.tier.storage.put(&self.new_name(&format!("{start:010}"))?, bytes)?;
        self.record(last, (start, end), &object, false, self.tier.now()?)
    }

    /// Puts the sealed log in place of its parts. Returns `None` if another server has changed the log.
    pub(super) fn put_sealed(
        &self,
        last: Option<&LogObject>,
        sealed: &NamedTempFile,
        length: u64,
    ) -> Result<Option<StoredObject>, LogError> {
        let object = self.tier.storage.put_file(&self.new_name("sealed")?, sealed.as_file())?;
        let recorded = self.record(last, (0, length), &object, true, self.tier.now()?)?;
        Ok(recorded.map(|_| object))
    }

    /// Keeps the file of a sealed log as the local copy of its object.
    pub(super) fn cache_sealed(&self, object: &StoredObject, sealed: NamedTempFile) -> Result<(), LogError> {
        Ok(self.tier.cache.insert(&object.name, sealed).map(drop)?)
    }

    /// Replaces the whole log with a note, which keeps the time of the log, so that a later pass does not mistake it for
    /// a recent log. Returns false if another server has changed the log.
    pub(super) fn put_note(
        &self,
        last: Option<&LogObject>,
        note: &NamedTempFile,
        length: u64,
        stored_at: Timestamp,
    ) -> Result<bool, LogError> {
        let object = self.tier.storage.put_file(&self.new_name("sealed")?, note.as_file())?;
        Ok(self.record(last, (0, length), &object, true, stored_at)?.is_some())
    }

    /// Creates a file for the sealed log.
    pub(super) fn new_file(&self) -> Result<NamedTempFile, LogError> {
        Ok(self.tier.cache.new_file()?)
    }

    /// Records an object in place of those that start at its start or later, and deletes these.
    fn record(
        &self,
        last: Option<&LogObject>,
        (start, end): (u64, u64),
        object: &StoredObject,
        is_sealed: bool,
        stored_at: Timestamp,
    ) -> Result<Option<LogObject>, LogError> {
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let row = LogObject {
            start: number(start),
            end: number(end),
            is_sealed,
            object: object.name.clone(),
            sha256: object.sha256.clone(),
            bytes: number(object.bytes),
            stored_at,
        };
        let (key, expected, new) =
            (StoredLogKey::from(&self.key), last.map(|last| last.object.clone()), row.clone());
        let replaced =
            self.tier.store.transact_blocking(TxContext::system(Some(self.key.org)), move |tx| {
                log_object::lock(tx, &key)?;
                if log_object::find_last(tx, &key)?.map(|last| last.object) != expected {
                    return Ok(None);
                }
                Ok::<_, StoreError>(Some(log_object::replace_from(tx, &key, &new)?))
            })?;
        let Some(replaced) = replaced else {
            self.tier.discard(&row.object);
            return Ok(None);
        };
        replaced.iter().for_each(|old| self.tier.discard(&old.object));
        Ok(Some(row))
    }

    fn new_name(&self, part: &str) -> Result<String, LogError> {
        let LogKey { org, deployment, step, attempt, stream } = self.key;
        let after = if stream == LogStream::AfterFence { super::store::AFTER_FENCE } else { "" };
        Ok(format!("{LOGS}/{org}/{deployment}/{after}{step}.{attempt}/{part}-{}", unique_suffix()?))
    }
}
