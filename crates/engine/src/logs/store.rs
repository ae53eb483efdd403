//! The log store, with a table of open logs. All users of a log share one entry of the table.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use berth_core::id::{DeploymentId, OrgId};
use parking_lot::Mutex;

use super::files::{LogFiles, none_if_missing};
use super::log_objects::LogObjects;
use super::open_log::{LogContent, OpenLog};
use super::reader::LogReader;
use super::seal_queue::SealQueue;
use super::sealed_log::LogSeal;
use super::watch::LogWatch;
use super::{AppendResult, LOG_CHUNK_BYTES_MAX, LOGS_OPEN_MAX, LogError, LogKey, LogStream};
use crate::admission::{AdmissionCapacity, AdmissionControl, AdmissionPermit};
use crate::object_storage::ObjectTier;

/// File name prefix of logs that contain output after a takeover.
pub(super) const AFTER_FENCE: &str = "after-";

/// Stores the logs of all steps. All methods may block briefly on disk I/O, but none waits for another log.
#[derive(Clone)]
pub struct LogStore(Arc<LogStoreInner>);

struct LogStoreInner {
    dir: PathBuf,
    table: Mutex<LogTable>,
    /// Limits the number of logs in the table, in total and per organization.
    places: AdmissionControl,
    open_max: AdmissionCapacity,
    ended: SealQueue,
    /// Other servers may write to the same directory.
    is_shared: bool,
    /// If logs are in object storage, the directory only has those that are being written or followed.
    objects: Option<Arc<ObjectTier>>,
    /// Logs with bytes that may not be in object storage yet.
    unstored: Mutex<HashSet<LogKey>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LogAccess {
    Write,
    Read,
}

#[derive(Default)]
struct LogTable {
    logs: HashMap<LogKey, TableEntry>,
    /// Number of requests so far. Used for LRU eviction.
    count: u64,
}

struct TableEntry {
    log: Arc<OpenLog>,
    /// `None` for a log that was opened for writing although the table was full.
    pass: Option<AdmissionPermit>,
}

impl LogStore {
    /// Does not touch the disk. The directories are created when the first log is written.
    pub fn new(dir: PathBuf) -> Self {
        Self::with_capacity(dir, LOGS_OPEN_MAX, false, None)
    }

    /// Creates a store in a directory that other servers write to as well. The files are authoritative, and the cached
    /// state is checked against them.
    pub fn new_shared(dir: PathBuf) -> Self {
        Self::with_capacity(dir, LOGS_OPEN_MAX, true, None)
    }

    /// Creates a store with the logs in object storage. `dir` must not be used by another server.
    pub fn with_objects(dir: PathBuf, objects: Arc<ObjectTier>) -> Self {
        Self::with_capacity(dir, LOGS_OPEN_MAX, false, Some(objects))
    }

    pub(super) fn with_capacity(
        dir: PathBuf,
        open_max: AdmissionCapacity,
        is_shared: bool,
        objects: Option<Arc<ObjectTier>>,
    ) -> Self {
        Self(Arc::new(LogStoreInner {
            dir,
            table: Mutex::default(),
            places: AdmissionControl::without_queue(open_max),
            open_max,
            ended: SealQueue::default(),
            is_shared,
            objects,
            unstored: Mutex::default(),
        }))
    }

    /// Appends bytes at `offset`. The bytes are not durable until [`LogStore::flush`] is called.
    pub fn append(&self, key: &LogKey, offset: u64, bytes: &[u8]) -> Result<AppendResult, LogError> {
        if bytes.len() > LOG_CHUNK_BYTES_MAX {
            return Err(LogError::ChunkTooLarge);
        }
        let appended = self.log(key, LogAccess::Write)?.append(offset, bytes);
        if self.0.objects.is_some() && matches!(appended, Ok(AppendResult::Written { .. })) {
            self.unstored().lock().insert(*key);
        }
        appended
    }

    /// Makes everything durable that has been appended to the log so far: in object storage if there is one and it
    /// responds, otherwise on this machine's disk.
    pub fn flush(&self, key: &LogKey) -> Result<(), LogError> {
        let log = self.log(key, LogAccess::Write)?;
        log.flush()?;
        match &self.0.objects {
            Some(objects) if objects.storage.is_worth_trying() => log.put_appended(),
            _ => Ok(()),
        }
    }

    /// Fsyncs all open logs. If that fails for a log, the error is recorded in that log.
    pub fn flush_all(&self) {
        let keys: Vec<LogKey> = self.0.table.lock().logs.keys().copied().collect();
        for key in keys {
            // Look up one log at a time, so that the other logs can be evicted in the meantime.
            let log = self.0.table.lock().logs.get(&key).map(|entry| entry.log.clone());
            if let Some(Err(error)) = log.map(|log| log.flush()) {
                tracing::warn!(%error, "flushing a log failed");
            }
        }
    }

    /// Picks up changes that other servers have made to followed logs.
    pub fn catch_up_all(&self) {
        let watched = |entry: &&TableEntry| entry.log.news.receiver_count() > 0;
        let logs: Vec<_> =
            self.0.table.lock().logs.values().filter(watched).map(|entry| entry.log.clone()).collect();
        for log in logs {
            if let Err(error) = log.catch_up() {
                tracing::debug!(%error, "reading a log of another server failed");
            }
        }
    }

    /// Seals a log, which makes it compressed, durable and immutable. Idempotent.
    pub fn seal(&self, key: &LogKey) -> Result<LogSeal, LogError> {
        self.log(key, LogAccess::Write)?.seal()
    }

    /// Whether the log is in the table, because it was written or read recently.
    pub fn is_open(&self, key: &LogKey) -> bool {
        self.0.table.lock().logs.contains_key(key)
    }

    pub(super) fn seal_queue(&self) -> &SealQueue {
        &self.0.ended
    }

    pub(super) fn dir(&self) -> &Path {
        &self.0.dir
    }

    pub(super) fn objects(&self) -> Option<&Arc<ObjectTier>> {
        self.0.objects.as_ref()
    }

    pub(super) fn unstored(&self) -> &Mutex<HashSet<LogKey>> {
        &self.0.unstored
    }

    /// Returns a snapshot of the log, or `None` if nothing was ever appended to it.
    pub fn open(&self, key: &LogKey) -> Result<Option<LogReader>, LogError> {
        if let Some(found) = self.open_sealed_object(key)? {
            return Ok(Some(found));
        }
        let known = self.0.table.lock().logs.get(key).map(|entry| entry.log.clone());
        let log = match known {
            Some(log) => log,
            None => {
                let files = self.files(key);
                if let Some(file) = none_if_missing(std::fs::File::open(&files.packed))? {
                    return Ok(Some(LogReader::from_sealed(super::sealed_log::SealedLog::open(file)?)));
                }
                if !files.plain.try_exists()? && !self.has_objects(key)? {
                    return Ok(None);
                }
                self.log(key, LogAccess::Read)?
            }
        };
        log.catch_up()?;
        Ok(match log.readable()? {
            LogContent::Packed(pack) => Some(LogReader::from_sealed(*pack)),
            LogContent::Plain { file: None, damaged: None, .. } => None,
            LogContent::Plain { file, index, damaged } => Some(LogReader::from_plain(file, index, damaged)),
        })
    }

    /// Follows a log. The log may not exist yet.
    pub fn watch(&self, key: &LogKey) -> Result<LogWatch, LogError> {
        let log = self.log(key, LogAccess::Read)?;
        // Read the current state from the files.
        log.catch_up()?;
        let seen = log.news.subscribe();
        Ok(LogWatch { log, seen, packed: None })
    }

    /// Removes all logs of a deployment. Followers see the end of the log.
    pub fn remove(&self, org: OrgId, deployment: DeploymentId) -> Result<(), LogError> {
        let dir = self.0.dir.join(org.to_string()).join(deployment.to_string());
        let is_of = |key: &LogKey| key.org == org && key.deployment == deployment;
        let mut table = self.0.table.lock();
        table.logs.extract_if(|key, _| is_of(key)).for_each(|(_, entry)| entry.log.mark_removed());
        drop(table);
        none_if_missing(std::fs::remove_dir_all(dir))?;
        Ok(())
    }

    /// Removes a log from the table after its files were replaced. Followers see the end of the log.
    pub(super) fn remove_entry(&self, key: &LogKey) {
        let known = self.0.table.lock().logs.remove(key);
        if let Some(entry) = known {
            entry.log.mark_removed();
        }
    }

    pub(super) fn log(&self, key: &LogKey, need: LogAccess) -> Result<Arc<OpenLog>, LogError> {
        let mut table = self.0.table.lock();
        table.count += 1;
        let count = table.count;
        if let Some(TableEntry { log, .. }) = table.logs.get(key) {
            log.touch(count);
            return Ok(log.clone());
        }
        let (pass, evicted) = table.make_room(&self.0, key.org);
        // Writers are admitted even if the table is full, so that readers cannot block steps.
        let log = (pass.is_some() || need == LogAccess::Write).then(|| {
            let objects = self.0.objects.clone().map(|objects| LogObjects::new(*key, objects));
            let log = Arc::new(OpenLog::new(self.files(key), self.0.is_shared, objects));
            log.touch(count);
            table.logs.insert(*key, TableEntry { log: log.clone(), pass });
            log
        });
        drop(table);
        // Fsync the evicted logs now, because `flush_all` only reaches logs in the table.
        for error in evicted.iter().filter_map(|idle| idle.flush().err()) {
            tracing::warn!(%error, "flushing a log failed");
        }
        log.ok_or(LogError::Busy)
    }

    pub(super) fn files(&self, key: &LogKey) -> LogFiles {
        let dir = self.0.dir.join(key.org.to_string()).join(key.deployment.to_string());
        let before = if key.stream == LogStream::AfterFence { AFTER_FENCE } else { "" };
        let name = format!("{before}{}.{}", key.step, key.attempt);
        LogFiles { packed: dir.join(format!("{name}.zst")), plain: dir.join(name) }
    }
}

impl LogTable {
    /// Makes room for a log of the organization and returns the logs that were evicted. Evicts the least recently used
    /// logs that are not in use. If the organization has used up its share, only its own logs are evicted.
    fn make_room(&mut self, of: &LogStoreInner, org: OrgId) -> (Option<AdmissionPermit>, Vec<Arc<OpenLog>>) {
        let mut evicted = Vec::new();
        loop {
            if let Some(pass) = of.places.try_enter(org) {
                return (Some(pass), evicted);
            }
            let own = self.logs.iter().filter(|(key, entry)| key.org == org && entry.pass.is_some()).count();
            let has_share = own >= of.open_max.share;
            let idle = self
                .logs
                .iter()
                .filter(|(key, entry)| Arc::strong_count(&entry.log) == 1 && (key.org == org || !has_share));
            let oldest = idle.min_by_key(|(_, entry)| entry.log.used.load(Ordering::Relaxed));
            let Some(oldest) = oldest.map(|(key, _)| *key) else { return (None, evicted) };
            evicted.extend(self.logs.remove(&oldest).map(|entry| entry.log));
        }
    }
}

#[cfg(test)]
mod tests {
    use berth_core::id::StepRunId;
    use berth_core::time::Timestamp;

    use super::*;

    fn key() -> LogKey {
        let at = Timestamp::from_micros(1);
        LogKey {
            org: OrgId::from_parts(at, [1; 10]),
            deployment: DeploymentId::from_parts(at, [2; 10]),
            step: StepRunId::from_parts(at, [3; 10]),
            attempt: 1,
            stream: LogStream::Step,
        }
    }

    #[test]
    fn reader_sees_appends_and_seal_of_another_server() {
        let dir = tempfile::tempdir().unwrap();
        let [writes, reads] = [(); 2].map(|()| LogStore::new(dir.path().to_owned()));
        let key = key();
        let text = || reads.open(&key).unwrap().unwrap().read_bytes(0, usize::MAX).unwrap();
        assert!(reads.open(&key).unwrap().is_none());
        let mut watch = reads.watch(&key).unwrap();
        writes.append(&key, 0, b"one\n").unwrap();
        assert_eq!(text(), b"one\n");
        writes.append(&key, 4, b"two\n").unwrap();
        reads.catch_up_all();
        assert_eq!(watch.progress().length, 8);
        assert_eq!(text(), b"one\ntwo\n");
        writes.seal(&key).unwrap();
        reads.catch_up_all();
        assert!(watch.progress().ended);
        assert_eq!(text(), b"one\ntwo\n");
    }

    /// Two servers share the same files, so the cached state of each may be outdated.
    #[test]
    fn shared_log_is_appended_and_sealed_from_disk_state() {
        let dir = tempfile::tempdir().unwrap();
        let server = || LogStore::new_shared(dir.path().join("logs"));
        let (one, other, key) = (server(), server(), key());
        one.append(&key, 0, b"first\n").unwrap();
        assert_eq!(other.append(&key, 6, b"second\n").unwrap(), AppendResult::Written { length: 13 });
        assert_eq!(one.append(&key, 13, b"third\n").unwrap(), AppendResult::Written { length: 19 });
        // The other server has only seen 13 bytes, but it seals all 19.
        assert_eq!(other.seal(&key).unwrap().bytes, 19);
        assert!(matches!(one.append(&key, 19, b"late\n"), Err(LogError::Sealed { length: 19 })));
    }

    #[test]
    fn log_followers_of_one_organization_leave_slots_for_others() {
        let dir = tempfile::tempdir().unwrap();
        let store = LogStore::with_capacity(
            dir.path().join("logs"),
            AdmissionCapacity { total: 4, share: 3 },
            false,
            None,
        );
        let other = OrgId::from_parts(Timestamp::from_micros(1), [9; 10]);
        let ours = |attempt| LogKey { attempt, ..key() };
        let theirs = |attempt| LogKey { org: other, ..ours(attempt) };
        let mut followed: Vec<_> = (1..=3).map(|attempt| store.watch(&ours(attempt)).unwrap()).collect();
        assert!(matches!(store.watch(&ours(4)), Err(LogError::Busy)));
        for attempt in 1..=5 {
            store.append(&theirs(attempt), 0, b"one\n").unwrap();
            assert_eq!(store.watch(&theirs(attempt)).unwrap().progress().length, 4);
        }
        // Writers neither evict logs that another organization follows nor need a free slot.
        for attempt in 4..=9 {
            store.append(&ours(attempt), 0, b"one\n").unwrap();
        }
        followed.push(store.watch(&theirs(6)).unwrap());
        assert!(matches!(store.watch(&theirs(7)), Err(LogError::Busy)), "the table is full");
        followed.remove(0);
        assert!(store.watch(&theirs(7)).is_ok());
    }
}
