//! An open log: its files, length and line index, guarded by a mutex.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

use super::files::{LogFiles, count, load, open_plain, pack, sync_dirs};
use super::index::LineIndex;
use super::log_objects::LogObjects;
use super::sealed_log::{LogSeal, SealedLog};
use super::{AppendResult, LOG_BYTES_MAX, LogError};
use crate::object_storage::StoredObject;
use berth_store::tables::log_object::LogObject;

/// Number of parent directories to fsync for a new log: deployment, organization and root.
const PATH_LEVELS: usize = 3;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogProgress {
    pub length: u64,
    /// Whether the log is complete: nothing more will be appended.
    pub ended: bool,
    /// If set, data from this offset on was lost because of a disk error.
    pub damaged: Option<u64>,
}

pub(super) struct OpenLog {
    pub(super) files: LogFiles,
    pub(super) state: Mutex<OpenLogState>,
    /// Held while the log is being sealed, or exchanged with object storage.
    pub(super) sealing: Mutex<()>,
    pub(super) news: watch::Sender<LogProgress>,
    /// Value of the store's request counter when the log was last used.
    pub(super) used: AtomicU64,
    #[cfg(test)]
    pub(super) fault: Mutex<Option<io::ErrorKind>>,
    /// Other servers may write the same files.
    is_shared: bool,
    /// The log's objects, if logs are in object storage. The plain file is then a copy of them, and bytes that have not
    /// been put there yet.
    pub(super) objects: Option<LogObjects>,
}

#[derive(Default)]
pub(super) struct OpenLogState {
    pub(super) phase: LogPhase,
    pub(super) file: Option<Arc<File>>,
    pub(super) index: LineIndex,
    pub(super) flushed: u64,
    pub(super) damaged: Option<u64>,
    /// Set if this process has appended to the log. Unless servers share the files, no other process then writes to it.
    pub(super) is_ours: bool,
    /// Number of bytes in object storage, and the last object of them.
    pub(super) stored: u64,
    pub(super) last: Option<LogObject>,
    /// The object of a sealed log.
    pub(super) sealed_object: Option<StoredObject>,
}

#[derive(Default)]
pub(super) enum LogPhase {
    /// The files have not been read yet.
    #[default]
    Unknown,
    Open,
    Sealing,
    Sealed(LogSeal),
}

/// Where the content of a log is read from.
pub(super) enum LogContent {
    Plain { file: Option<Arc<File>>, index: LineIndex, damaged: Option<u64> },
    Packed(Box<SealedLog>),
}

impl OpenLog {
    pub(super) fn new(files: LogFiles, is_shared: bool, objects: Option<LogObjects>) -> Self {
        Self {
            files,
            is_shared,
            objects,
            state: Mutex::default(),
            sealing: Mutex::default(),
            news: watch::Sender::default(),
            used: AtomicU64::new(0),
            #[cfg(test)]
            fault: Mutex::default(),
        }
    }

    pub(super) fn touch(&self, count: u64) {
        self.used.store(count, Ordering::Relaxed);
    }

    pub(super) fn append(&self, offset: u64, bytes: &[u8]) -> Result<AppendResult, LogError> {
        let mut state = self.load_state()?;
        if self.is_shared {
            self.reload_state(&mut state)?;
        }
        if self.objects.is_some() && offset > state.length() {
            // Another server may have received the bytes in between.
            drop(state);
            self.fetch()?;
            state = self.load_state()?;
        }
        let length = state.length();
        let Some(known) = length.checked_sub(offset) else { return Ok(AppendResult::Gap { length }) };
        let new = usize::try_from(known).ok().and_then(|known| bytes.get(known..)).unwrap_or_default();
        if new.is_empty() {
            return Ok(AppendResult::Written { length });
        }
        match state.phase {
            LogPhase::Sealing | LogPhase::Sealed(_) => return Err(LogError::Sealed { length }),
            LogPhase::Unknown | LogPhase::Open => {}
        }
        if state.damaged.is_some() {
            return Err(LogError::Damaged { length });
        }
        if length + new.len() as u64 > LOG_BYTES_MAX {
            return Err(LogError::TooLong);
        }
        state.is_ours = true;
        if let Err(error) = self.write(&mut state, new) {
            return Err(self.record_failure(state, error));
        }
        state.index.push(new);
        let length = state.index.length();
        self.publish_progress(&state);
        Ok(AppendResult::Written { length })
    }

    /// Fsyncs everything that has been appended so far.
    pub(super) fn flush(&self) -> Result<(), LogError> {
        let state = self.load_state()?;
        let (file, length) = match &state.file {
            Some(file) if state.flushed < state.index.length() => (file.clone(), state.index.length()),
            _ => return Ok(()),
        };
        let new_dirs = state.new_dirs();
        drop(state);
        let flushed = self.faultless().and_then(|()| file.sync_data());
        let flushed = flushed.and_then(|()| sync_dirs(&self.files.plain, new_dirs));
        let mut state = self.state.lock();
        match flushed {
            Ok(()) => {
                state.flushed = state.flushed.max(length);
                Ok(())
            }
            Err(error) => Err(self.record_failure(state, error)),
        }
    }

    /// Seals the log. Readers and followers are not blocked in the meantime.
    pub(super) fn seal(&self) -> Result<LogSeal, LogError> {
        if self.objects.is_some() {
            return self.seal_object(false);
        }
        let _turn = self.sealing.lock();
        let mut state = self.load_state()?;
        if self.is_shared {
            self.reload_state(&mut state)?;
        }
        if let LogPhase::Sealed(sealed) = state.phase {
            return Ok(sealed);
        }
        state.phase = LogPhase::Sealing;
        let (file, index, damaged) = (state.file.clone(), state.index.clone(), state.damaged);
        // Fsync at least the deployment's directory, because renaming the sealed file changes it.
        let dirs = state.new_dirs().max(1);
        drop(state);
        let sealed = match &file {
            Some(file) => pack(&self.files.packed, file, &index, damaged).and_then(|sealed| {
                sync_dirs(&self.files.packed, dirs).map(|()| sealed).map_err(LogError::from)
            }),
            // A step without output has no log file.
            None => Ok(LogSeal { damaged, ..LogSeal::empty() }),
        };
        let mut state = self.state.lock();
        match sealed {
            Ok(sealed) => {
                *state = OpenLogState { phase: LogPhase::Sealed(sealed), ..OpenLogState::default() };
                // The sealed file is complete and takes precedence. If removing the plain file fails now, the next load
                // removes it.
                let _ = std::fs::remove_file(&self.files.plain);
            }
            Err(_) => state.phase = LogPhase::Open,
        }
        self.publish_progress(&state);
        sealed
    }

    /// Ends the log for its followers, because the deployment and its log files are being removed.
    pub(super) fn mark_removed(&self) {
        let mut state = self.state.lock();
        *state = OpenLogState { phase: LogPhase::Sealed(LogSeal::empty()), ..OpenLogState::default() };
        self.publish_progress(&state);
    }

    pub(super) fn readable(&self) -> Result<LogContent, LogError> {
        let state = self.load_state()?;
        if let LogPhase::Sealed(sealed) = state.phase {
            let (index, damaged) = (LineIndex::default(), sealed.damaged);
            let object = state.sealed_object.clone();
            drop(state);
            return Ok(match (&self.objects, object) {
                _ if sealed.bytes == 0 => LogContent::Plain { file: None, index, damaged },
                (Some(objects), Some(object)) => {
                    LogContent::Packed(Box::new(SealedLog::open(objects.open(&object)?)?))
                }
                _ => LogContent::Packed(Box::new(SealedLog::open(File::open(&self.files.packed)?)?)),
            });
        }
        let OpenLogState { file, index, damaged, .. } = &*state;
        Ok(LogContent::Plain { file: file.clone(), index: index.clone(), damaged: *damaged })
    }

    /// Returns the plain file and its length, if the log has one.
    pub(super) fn plain_file(&self) -> Result<Option<(Arc<File>, u64)>, LogError> {
        let state = self.load_state()?;
        Ok(state.file.as_ref().map(|file| (file.clone(), state.index.length())))
    }

    /// Picks up what another server has done to the log: appended data, or sealed it.
    pub(super) fn catch_up(&self) -> Result<(), LogError> {
        if self.objects.is_some() {
            return self.fetch();
        }
        let mut state = self.load_state()?;
        if state.is_ours && !self.is_shared {
            return Ok(());
        }
        self.reload_state(&mut state)
    }

    /// Reads new data from the plain file, or switches to the sealed file if there is one.
    fn reload_state(&self, state: &mut OpenLogState) -> Result<(), LogError> {
        if !matches!(state.phase, LogPhase::Open) {
            return Ok(());
        }
        let before = state.length();
        let is_sealed = self.files.packed.try_exists()?;
        match state.file.clone() {
            Some(file) if !is_sealed => count(&file, &mut state.index)?,
            _ => *state = load(&self.files)?,
        }
        if is_sealed || state.length() != before {
            self.publish_progress(state);
        }
        Ok(())
    }

    /// Returns the state. On first use, reads it from the files.
    fn load_state(&self) -> Result<MutexGuard<'_, OpenLogState>, LogError> {
        let mut state = self.state.lock();
        if matches!(state.phase, LogPhase::Unknown) && self.objects.is_some() {
            drop(state);
            self.fetch()?;
            return Ok(self.state.lock());
        }
        if matches!(state.phase, LogPhase::Unknown) {
            *state = load(&self.files)?;
            self.publish_progress(&state);
        }
        Ok(state)
    }

    pub(super) fn publish_progress(&self, state: &OpenLogState) {
        let ended = matches!(state.phase, LogPhase::Sealed(_));
        let damaged = match state.phase {
            LogPhase::Sealed(sealed) => sealed.damaged,
            LogPhase::Unknown | LogPhase::Open | LogPhase::Sealing => state.damaged,
        };
        self.news.send_replace(LogProgress { length: state.length(), ended, damaged });
    }

    pub(super) fn write(&self, state: &mut OpenLogState, bytes: &[u8]) -> io::Result<()> {
        self.faultless()?;
        let file = match &state.file {
            Some(file) => file,
            None => {
                if let Some(dir) = self.files.plain.parent() {
                    std::fs::create_dir_all(dir)?;
                }
                state.file.insert(Arc::new(open_plain(&self.files.plain, true)?))
            }
        };
        // Write at the known length, so that the remains of a failed write are overwritten.
        file.write_all_at(bytes, state.index.length())
    }

    /// Handles an I/O error. A full disk may recover, so the log stays open. After any other error it is unknown what
    /// is on the disk, so the log is marked as damaged and sealed.
    fn record_failure(&self, mut state: MutexGuard<'_, OpenLogState>, error: io::Error) -> LogError {
        let error = LogError::from(error);
        if matches!(error, LogError::Full) {
            return error;
        }
        let length = state.length();
        tracing::error!(%error, log = %self.files.plain.display(), length, "log damaged");
        state.damaged = Some(length);
        self.publish_progress(&state);
        drop(state);
        if let Err(error) = self.seal() {
            tracing::error!(%error, log = %self.files.plain.display(), "sealing a damaged log failed");
        }
        LogError::Damaged { length }
    }

    #[cfg(test)]
    fn faultless(&self) -> io::Result<()> {
        let fault = self.fault.lock().take();
        fault.map_or(Ok(()), |kind| Err(kind.into()))
    }

    #[cfg(not(test))]
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "tests make it fail")]
    const fn faultless(&self) -> io::Result<()> {
        Ok(())
    }
}

impl OpenLogState {
    /// Number of parent directories that may contain a new entry and need an fsync; zero once the log has been fsynced.
    fn new_dirs(&self) -> usize {
        if self.flushed == 0 { PATH_LEVELS } else { 0 }
    }

    pub(super) fn length(&self) -> u64 {
        match &self.phase {
            LogPhase::Sealed(sealed) => sealed.bytes,
            LogPhase::Unknown | LogPhase::Open | LogPhase::Sealing => self.index.length(),
        }
    }
}
