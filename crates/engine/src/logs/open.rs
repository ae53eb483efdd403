//! An open log: its files, length and line index, guarded by a mutex.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

use super::index::{BLOCK_BYTES, LineIndex, block_start};
use super::sealed::{self, Pack, Sealed, read_plain};
use super::{Appended, LOG_BYTES_MAX, LogError};

/// Directory levels to fsync for a new log: deployment, organization and root.
const PATH_LEVELS: usize = 3;

/// The progress of a log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct News {
    pub length: u64,
    /// Nothing will be appended any more.
    pub ended: bool,
    /// Data is missing from this byte on.
    pub damaged: Option<u64>,
}

pub(super) struct OpenLog {
    files: Files,
    state: Mutex<State>,
    /// Held while sealing.
    sealing: Mutex<()>,
    pub(super) news: watch::Sender<News>,
    /// The store's request counter at the last use.
    pub(super) used: AtomicU64,
    #[cfg(test)]
    pub(super) fault: Mutex<Option<io::ErrorKind>>,
    /// Other servers may write the same files.
    is_shared: bool,
}

/// The paths of the plain and the sealed file.
pub(super) struct Files {
    pub(super) plain: PathBuf,
    pub(super) packed: PathBuf,
}

#[derive(Default)]
struct State {
    phase: Phase,
    file: Option<Arc<File>>,
    index: LineIndex,
    flushed: u64,
    damaged: Option<u64>,
    /// This process has appended to the log, so no other process does.
    is_ours: bool,
}

#[derive(Default)]
enum Phase {
    /// The files have not been read yet.
    #[default]
    Unknown,
    Open,
    Sealing,
    Sealed(Sealed),
}

/// The sources for reading a log.
pub(super) enum Readable {
    Plain { file: Option<Arc<File>>, index: LineIndex, damaged: Option<u64> },
    Packed(Box<Pack>),
}

impl OpenLog {
    pub(super) fn new(files: Files, is_shared: bool) -> Self {
        Self {
            files,
            is_shared,
            state: Mutex::default(),
            sealing: Mutex::default(),
            news: watch::Sender::default(),
            used: AtomicU64::new(0),
            #[cfg(test)]
            fault: Mutex::default(),
        }
    }

    pub(super) fn used_at(&self, count: u64) {
        self.used.store(count, Ordering::Relaxed);
    }

    pub(super) fn append(&self, offset: u64, bytes: &[u8]) -> Result<Appended, LogError> {
        let mut state = self.loaded()?;
        if self.is_shared {
            self.look_again(&mut state)?;
        }
        let length = state.length();
        let Some(known) = length.checked_sub(offset) else { return Ok(Appended::Gap { length }) };
        let new = usize::try_from(known).ok().and_then(|known| bytes.get(known..)).unwrap_or_default();
        if new.is_empty() {
            return Ok(Appended::Written { length });
        }
        match state.phase {
            Phase::Sealing | Phase::Sealed(_) => return Err(LogError::Sealed { length }),
            Phase::Unknown | Phase::Open => {}
        }
        if state.damaged.is_some() {
            return Err(LogError::Damaged { length });
        }
        if length + new.len() as u64 > LOG_BYTES_MAX {
            return Err(LogError::TooLong);
        }
        state.is_ours = true;
        if let Err(error) = self.write(&mut state, new) {
            return Err(self.failed(state, error));
        }
        state.index.push(new);
        let length = state.index.length();
        self.tell(&state);
        Ok(Appended::Written { length })
    }

    /// Fsyncs everything appended so far.
    pub(super) fn flush(&self) -> Result<(), LogError> {
        let state = self.loaded()?;
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
            Err(error) => Err(self.failed(state, error)),
        }
    }

    /// Seals the log. Does not block readers and followers.
    pub(super) fn seal(&self) -> Result<Sealed, LogError> {
        let _turn = self.sealing.lock();
        let mut state = self.loaded()?;
        if self.is_shared {
            self.look_again(&mut state)?;
        }
        if let Phase::Sealed(sealed) = state.phase {
            return Ok(sealed);
        }
        state.phase = Phase::Sealing;
        let (file, index, damaged) = (state.file.clone(), state.index.clone(), state.damaged);
        // The rename changes the deployment's directory.
        let dirs = state.new_dirs().max(1);
        drop(state);
        let sealed = match &file {
            Some(file) => pack(&self.files.packed, file, &index, damaged).and_then(|sealed| {
                sync_dirs(&self.files.packed, dirs).map(|()| sealed).map_err(LogError::from)
            }),
            // A step without output leaves no file.
            None => Ok(Sealed { damaged, ..Sealed::empty() }),
        };
        let mut state = self.state.lock();
        match sealed {
            Ok(sealed) => {
                *state = State { phase: Phase::Sealed(sealed), ..State::default() };
                // The sealed file is complete. If removing the plain one fails, it is ignored later.
                let _ = std::fs::remove_file(&self.files.plain);
            }
            Err(_) => state.phase = Phase::Open,
        }
        self.tell(&state);
        sealed
    }

    /// Ends the log because its deployment and all files are removed.
    pub(super) fn forget(&self) {
        let mut state = self.state.lock();
        *state = State { phase: Phase::Sealed(Sealed::empty()), ..State::default() };
        self.tell(&state);
    }

    pub(super) fn readable(&self) -> Result<Readable, LogError> {
        let state = self.loaded()?;
        if let Phase::Sealed(sealed) = state.phase {
            let (index, damaged) = (LineIndex::default(), sealed.damaged);
            return Ok(match sealed.bytes {
                0 => Readable::Plain { file: None, index, damaged },
                _ => Readable::Packed(Box::new(Pack::open(File::open(&self.files.packed)?)?)),
            });
        }
        let State { file, index, damaged, .. } = &*state;
        Ok(Readable::Plain { file: file.clone(), index: index.clone(), damaged: *damaged })
    }

    /// The plain file, if there is one, and its length.
    pub(super) fn growing(&self) -> Result<Option<(Arc<File>, u64)>, LogError> {
        let state = self.loaded()?;
        Ok(state.file.as_ref().map(|file| (file.clone(), state.index.length())))
    }

    /// Reads what another server has appended, or that it has sealed the log.
    pub(super) fn catch_up(&self) -> Result<(), LogError> {
        let mut state = self.loaded()?;
        if state.is_ours && !self.is_shared {
            return Ok(());
        }
        self.look_again(&mut state)
    }

    /// Rereads the files: new data or the sealed file.
    fn look_again(&self, state: &mut State) -> Result<(), LogError> {
        if !matches!(state.phase, Phase::Open) {
            return Ok(());
        }
        let before = state.length();
        let is_sealed = self.files.packed.try_exists()?;
        match state.file.clone() {
            Some(file) if !is_sealed => count(&file, &mut state.index)?,
            _ => *state = load(&self.files)?,
        }
        if is_sealed || state.length() != before {
            self.tell(state);
        }
        Ok(())
    }

    /// Returns the state and reads it from the files on first use.
    fn loaded(&self) -> Result<MutexGuard<'_, State>, LogError> {
        let mut state = self.state.lock();
        if matches!(state.phase, Phase::Unknown) {
            *state = load(&self.files)?;
            self.tell(&state);
        }
        Ok(state)
    }

    fn tell(&self, state: &State) {
        let ended = matches!(state.phase, Phase::Sealed(_));
        let damaged = match state.phase {
            Phase::Sealed(sealed) => sealed.damaged,
            Phase::Unknown | Phase::Open | Phase::Sealing => state.damaged,
        };
        self.news.send_replace(News { length: state.length(), ended, damaged });
    }

    fn write(&self, state: &mut State, bytes: &[u8]) -> io::Result<()> {
        self.faultless()?;
        let file = match &state.file {
            Some(file) => file,
            None => {
                if let Some(dir) = self.files.plain.parent() {
                    std::fs::create_dir_all(dir)?;
                }
                state.file.insert(Arc::new(plain(&self.files.plain, true)?))
            }
        };
        // Write at the known offset, to overwrite the remains of a failed write.
        file.write_all_at(bytes, state.index.length())
    }

    /// Handles an I/O error. A full disk may recover. After any other error the content of the disk is unknown, so the
    /// log is marked as damaged and sealed.
    fn failed(&self, mut state: MutexGuard<'_, State>, error: io::Error) -> LogError {
        let error = LogError::from(error);
        if matches!(error, LogError::Full) {
            return error;
        }
        let length = state.length();
        tracing::error!(%error, log = %self.files.plain.display(), length, "log damaged");
        state.damaged = Some(length);
        self.tell(&state);
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

impl State {
    /// Directory levels that may contain a new entry; none after the first fsync.
    fn new_dirs(&self) -> usize {
        if self.flushed == 0 { PATH_LEVELS } else { 0 }
    }

    fn length(&self) -> u64 {
        match &self.phase {
            Phase::Sealed(sealed) => sealed.bytes,
            Phase::Unknown | Phase::Open | Phase::Sealing => self.index.length(),
        }
    }
}

fn load(files: &Files) -> Result<State, LogError> {
    if let Some(file) = found(File::open(&files.packed))? {
        let sealed = Pack::open(file)?.sealed;
        let _ = std::fs::remove_file(&files.plain);
        return Ok(State { phase: Phase::Sealed(sealed), ..State::default() });
    }
    let Some(file) = found(plain(&files.plain, false))? else {
        return Ok(State { phase: Phase::Open, ..State::default() });
    };
    // The index of an unsealed log is not stored, so rebuild it.
    let mut index = LineIndex::default();
    count(&file, &mut index)?;
    Ok(State { phase: Phase::Open, file: Some(Arc::new(file)), index, ..State::default() })
}

/// Extends the index with the rest of the file.
fn count(file: &File, index: &mut LineIndex) -> io::Result<()> {
    let mut buffer = vec![0; BLOCK_BYTES];
    loop {
        match file.read_at(&mut buffer, index.length())? {
            0 => return Ok(()),
            read => index.push(&buffer[..read]),
        }
    }
}

fn plain(path: &Path, create: bool) -> io::Result<File> {
    // Never truncate: the file contains appended data.
    OpenOptions::new().read(true).write(true).create(create).truncate(false).mode(0o600).open(path)
}

/// Writes the sealed file under a temporary name, then renames it.
fn pack(path: &Path, plain: &File, index: &LineIndex, damaged: Option<u64>) -> Result<Sealed, LogError> {
    let unfinished = path.with_extension("part");
    let packed = (|| {
        let into =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
        let sealed = sealed::write(&into, index, damaged, |number, block| {
            let left = usize::try_from(index.length() - block_start(number)).unwrap_or(usize::MAX);
            Ok(read_plain(plain, block_start(number), block, left.min(BLOCK_BYTES))?)
        })?;
        // Keep the time of the last write, because retention is based on it.
        into.set_modified(plain.metadata()?.modified()?)?;
        std::fs::rename(&unfinished, path)?;
        Ok(sealed)
    })();
    if packed.is_err() {
        let _ = std::fs::remove_file(&unfinished);
    }
    packed
}

/// Fsyncs the directories above the file.
fn sync_dirs(path: &Path, levels: usize) -> io::Result<()> {
    path.ancestors().skip(1).take(levels).try_for_each(|dir| File::open(dir)?.sync_all())
}

pub(super) fn found<T>(opened: io::Result<T>) -> io::Result<Option<T>> {
    match opened {
        Ok(opened) => Ok(Some(opened)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
