//! Table of open logs. All users of a log share one entry.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use berth_core::id::{DeploymentId, OrgId};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::open_log::{LogContent, LogFiles, LogProgress, OpenLog, none_if_missing};
use super::reader::LogReader;
use super::seal_queue::SealQueue;
use super::sealed_log::{LogSeal, read_plain};
use super::{AppendResult, LOG_CHUNK_BYTES_MAX, LOGS_OPEN_MAX, LogError, LogKey, LogStream};
use crate::admission::{AdmissionCapacity, AdmissionControl, AdmissionPermit};

/// File name prefix of logs with output after a takeover.
pub(super) const AFTER_FENCE: &str = "after-";

/// All calls block on disk I/O for a short time; none waits for another log.
#[derive(Clone)]
pub struct LogStore(Arc<LogStoreInner>);

struct LogStoreInner {
    dir: PathBuf,
    table: Mutex<LogTable>,
    /// Admission to the table.
    places: AdmissionControl,
    open_max: AdmissionCapacity,
    ended: SealQueue,
    /// Other servers write the same directory.
    is_shared: bool,
}

/// The intended use of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LogAccess {
    Write,
    Read,
}

#[derive(Default)]
struct LogTable {
    logs: HashMap<LogKey, TableEntry>,
    /// Request counter, for LRU eviction.
    count: u64,
}

struct TableEntry {
    log: Arc<OpenLog>,
    /// `None` for a writer that was admitted although the table was full.
    pass: Option<AdmissionPermit>,
}

impl LogStore {
    /// Does not touch the disk; directories are created with the first log.
    pub fn new(dir: PathBuf) -> Self {
        Self::with_capacity(dir, LOGS_OPEN_MAX, false)
    }

    /// A store in a directory that other servers write, too: the files are authoritative, not the cached state.
    pub fn new_shared(dir: PathBuf) -> Self {
        Self::with_capacity(dir, LOGS_OPEN_MAX, true)
    }

    pub(super) fn with_capacity(dir: PathBuf, open_max: AdmissionCapacity, is_shared: bool) -> Self {
        let (places, ended) = (AdmissionControl::without_queue(open_max), SealQueue::default());
        Self(Arc::new(LogStoreInner { dir, table: Mutex::default(), places, open_max, ended, is_shared }))
    }

    /// Appends bytes at `offset`. Not durable until [`LogStore::flush`].
    pub fn append(&self, key: &LogKey, offset: u64, bytes: &[u8]) -> Result<AppendResult, LogError> {
        if bytes.len() > LOG_CHUNK_BYTES_MAX {
            return Err(LogError::ChunkTooLarge);
        }
        self.log(key, LogAccess::Write)?.append(offset, bytes)
    }

    /// Fsyncs everything appended so far.
    pub fn flush(&self, key: &LogKey) -> Result<(), LogError> {
        self.log(key, LogAccess::Write)?.flush()
    }

    /// Flushes all open logs. Errors are recorded in the affected logs.
    pub fn flush_all(&self) {
        let keys: Vec<LogKey> = self.0.table.lock().logs.keys().copied().collect();
        for key in keys {
            // Look up one log at a time, so that the others can be evicted in between.
            let log = self.0.table.lock().logs.get(&key).map(|entry| entry.log.clone());
            if let Some(Err(error)) = log.map(|log| log.flush()) {
                tracing::warn!(%error, "flushing a log failed");
            }
        }
    }

    /// Updates followed logs that another server writes.
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

    /// Seals a log: compressed, durable and immutable. Idempotent.
    pub fn seal(&self, key: &LogKey) -> Result<LogSeal, LogError> {
        self.log(key, LogAccess::Write)?.seal()
    }

    /// Whether the log is in the table because it was written or read.
    pub fn is_open(&self, key: &LogKey) -> bool {
        self.0.table.lock().logs.contains_key(key)
    }

    /// The queue of logs to be sealed.
    pub(super) fn seal_queue(&self) -> &SealQueue {
        &self.0.ended
    }

    pub(super) fn dir(&self) -> &Path {
        &self.0.dir
    }

    /// A snapshot of the log; `None` if nothing was ever appended.
    pub fn open(&self, key: &LogKey) -> Result<Option<LogReader>, LogError> {
        let known = self.0.table.lock().logs.get(key).map(|entry| entry.log.clone());
        let log = match known {
            Some(log) => log,
            None => {
                let files = self.files(key);
                if let Some(file) = none_if_missing(std::fs::File::open(&files.packed))? {
                    return Ok(Some(LogReader::from_sealed(super::sealed_log::SealedLog::open(file)?)));
                }
                if !files.plain.try_exists()? {
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

    /// Follows a log, even one that does not exist yet.
    pub fn watch(&self, key: &LogKey) -> Result<LogWatch, LogError> {
        let log = self.log(key, LogAccess::Read)?;
        // Reads the files.
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

    /// Drops the entry of a log whose files were replaced. Followers see the end of the log.
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
        // Writers are admitted to a full table, so that readers cannot block steps.
        let log = (pass.is_some() || need == LogAccess::Write).then(|| {
            let log = Arc::new(OpenLog::new(self.files(key), self.0.is_shared));
            log.touch(count);
            table.logs.insert(*key, TableEntry { log: log.clone(), pass });
            log
        });
        drop(table);
        // An evicted log must be durable, because its index is rebuilt from the file when it is opened again.
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
    /// Makes room for a log of an organization and returns the evicted logs: the least recently used ones without
    /// users, and only the organization's own if it has used up its share.
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

/// Follows a log and keeps it in the table.
pub struct LogWatch {
    log: Arc<OpenLog>,
    seen: watch::Receiver<LogProgress>,
    /// The sealed log, once it is sealed.
    packed: Option<LogReader>,
}

impl LogWatch {
    /// The current progress of the log.
    pub fn progress(&mut self) -> LogProgress {
        *self.seen.borrow_and_update()
    }

    /// Waits for progress since [`LogWatch::progress`].
    pub async fn wait_for_change(&mut self) {
        // The sender cannot be dropped: it is part of the log that this holds.
        let _ = self.seen.changed().await;
    }

    /// Reads at most `max` bytes; none at the end.
    pub fn read(&mut self, from: u64, max: usize) -> Result<Vec<u8>, LogError> {
        if self.packed.is_none() {
            if let Some((file, length)) = self.log.plain_file()? {
                let count = length.saturating_sub(from).min(max as u64);
                let mut bytes = Vec::new();
                read_plain(&file, from, &mut bytes, usize::try_from(count).unwrap_or(0))?;
                return Ok(bytes);
            }
            match self.log.readable()? {
                LogContent::Packed(pack) => self.packed = Some(LogReader::from_sealed(*pack)),
                LogContent::Plain { .. } => return Ok(Vec::new()),
            }
        }
        self.packed.as_mut().map_or(Ok(Vec::new()), |log| log.read_bytes(from, max))
    }

    /// The number of lines of an ended log.
    pub fn line_count(&self) -> Result<u64, LogError> {
        Ok(match self.log.readable()? {
            LogContent::Packed(pack) => pack.sealed.lines,
            LogContent::Plain { index, .. } => index.line_count(),
        })
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
    fn what_another_server_appends_and_seals_is_seen_and_told() {
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

    /// Two servers on the same files: the cached state of each may be outdated.
    #[test]
    fn where_servers_share_files_a_log_is_taken_up_and_sealed_as_it_is_on_the_disk() {
        let dir = tempfile::tempdir().unwrap();
        let server = || LogStore::new_shared(dir.path().join("logs"));
        let (one, other, key) = (server(), server(), key());
        one.append(&key, 0, b"first\n").unwrap();
        assert_eq!(other.append(&key, 6, b"second\n").unwrap(), AppendResult::Written { length: 13 });
        assert_eq!(one.append(&key, 13, b"third\n").unwrap(), AppendResult::Written { length: 19 });
        // The other server has seen only thirteen bytes.
        assert_eq!(other.seal(&key).unwrap().bytes, 19);
        assert!(matches!(one.append(&key, 19, b"late\n"), Err(LogError::Sealed { length: 19 })));
    }

    #[test]
    fn followers_of_one_organization_leave_places_in_the_table_to_the_others() {
        let dir = tempfile::tempdir().unwrap();
        let store =
            LogStore::with_capacity(dir.path().join("logs"), AdmissionCapacity { total: 4, share: 3 }, false);
        let other = OrgId::from_parts(Timestamp::from_micros(1), [9; 10]);
        let ours = |attempt| LogKey { attempt, ..key() };
        let theirs = |attempt| LogKey { org: other, ..ours(attempt) };
        let mut followed: Vec<_> = (1..=3).map(|attempt| store.watch(&ours(attempt)).unwrap()).collect();
        assert!(matches!(store.watch(&ours(4)), Err(LogError::Busy)));
        for attempt in 1..=5 {
            store.append(&theirs(attempt), 0, b"one\n").unwrap();
            assert_eq!(store.watch(&theirs(attempt)).unwrap().progress().length, 4);
        }
        // Writers do not evict followers of another organization, and they need no free slot.
        for attempt in 4..=9 {
            store.append(&ours(attempt), 0, b"one\n").unwrap();
        }
        followed.push(store.watch(&theirs(6)).unwrap());
        assert!(matches!(store.watch(&theirs(7)), Err(LogError::Busy)), "the table is full");
        followed.remove(0);
        assert!(store.watch(&theirs(7)).is_ok());
    }
}
