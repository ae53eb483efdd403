//! A log that is written or followed: its file, its length and its index, behind one lock.

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

/// Directories above a log that are ours: the deployment's, the organization's, that of all logs.
const PATH_LEVELS: usize = 3;

/// How far a log has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct News {
    pub length: u64,
    /// Nothing will be appended any more.
    pub ended: bool,
    /// From this byte on something is missing.
    pub damaged: Option<u64>,
}

pub(super) struct OpenLog {
    files: Files,
    state: Mutex<State>,
    /// One at a time seals.
    sealing: Mutex<()>,
    pub(super) news: watch::Sender<News>,
    /// When it was last asked for, by the store's count.
    pub(super) used: AtomicU64,
    #[cfg(test)]
    pub(super) fault: Mutex<Option<io::ErrorKind>>,
    /// Other servers may write the same files.
    is_shared: bool,
}

/// Where the forms of a log lie.
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
    /// This process has appended to it: nobody else does.
    is_ours: bool,
}

#[derive(Default)]
enum Phase {
    /// Nobody has looked at the disk yet.
    #[default]
    Unknown,
    Open,
    Sealing,
    Sealed(Sealed),
}

/// What a reader needs.
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

    /// What was appended so far is on the disk when this returns.
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

    /// Ends the log. Readers and followers are not held up meanwhile.
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
        // The new name is in the deployment's directory.
        let dirs = state.new_dirs().max(1);
        drop(state);
        let sealed = match &file {
            Some(file) => pack(&self.files.packed, file, &index, damaged).and_then(|sealed| {
                sync_dirs(&self.files.packed, dirs).map(|()| sealed).map_err(LogError::from)
            }),
            // A step that said nothing leaves nothing.
            None => Ok(Sealed { damaged, ..Sealed::empty() }),
        };
        let mut state = self.state.lock();
        match sealed {
            Ok(sealed) => {
                *state = State { phase: Phase::Sealed(sealed), ..State::default() };
                // The sealed form is in place; should the plain one stay behind, it is not looked at.
                let _ = std::fs::remove_file(&self.files.plain);
            }
            Err(_) => state.phase = Phase::Open,
        }
        self.tell(&state);
        sealed
    }

    /// Its deployment is removed, with all files.
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

    /// The plain file, while there is one, and how much of it is written.
    pub(super) fn growing(&self) -> Result<Option<(Arc<File>, u64)>, LogError> {
        let state = self.loaded()?;
        Ok(state.file.as_ref().map(|file| (file.clone(), state.index.length())))
    }

    /// Notes what another server has appended since, or that it has sealed it.
    pub(super) fn catch_up(&self) -> Result<(), LogError> {
        let mut state = self.loaded()?;
        if state.is_ours && !self.is_shared {
            return Ok(());
        }
        self.look_again(&mut state)
    }

    /// What is on the disk by now: more of it, or the sealed form.
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

    /// The state, read from the disk at the first time.
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
        // At its place and not at the end: what a failed write left half done is written over.
        file.write_all_at(bytes, state.index.length())
    }

    /// A full disk may have room again. After any other error nobody knows what is on the disk: the log ends here,
    /// and says so.
    fn failed(&self, mut state: MutexGuard<'_, State>, error: io::Error) -> LogError {
        let error = LogError::from(error);
        if matches!(error, LogError::Full) {
            return error;
        }
        let length = state.length();
        tracing::error!(%error, log = %self.files.plain.display(), length, "a log is damaged");
        state.damaged = Some(length);
        self.tell(&state);
        drop(state);
        if let Err(error) = self.seal() {
            tracing::error!(%error, log = %self.files.plain.display(), "a damaged log cannot be sealed");
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
    /// Directories in which a name of this log may be new; once flushed, none is.
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
    // Nobody kept the index of a log that was not sealed: it is counted again.
    let mut index = LineIndex::default();
    count(&file, &mut index)?;
    Ok(State { phase: Phase::Open, file: Some(Arc::new(file)), index, ..State::default() })
}

/// Counts what the file has beyond the index.
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
    // What is there was appended: it is never cut.
    OpenOptions::new().read(true).write(true).create(create).truncate(false).mode(0o600).open(path)
}

/// Writes the sealed form beside its place, then puts it there at once.
fn pack(path: &Path, plain: &File, index: &LineIndex, damaged: Option<u64>) -> Result<Sealed, LogError> {
    let unfinished = path.with_extension("part");
    let packed = (|| {
        let into =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
        let sealed = sealed::write(&into, index, damaged, |number, block| {
            let left = usize::try_from(index.length() - block_start(number)).unwrap_or(usize::MAX);
            Ok(read_plain(plain, block_start(number), block, left.min(BLOCK_BYTES))?)
        })?;
        // When it was written, not when there was time to seal it: retention goes by that.
        into.set_modified(plain.metadata()?.modified()?)?;
        std::fs::rename(&unfinished, path)?;
        Ok(sealed)
    })();
    if packed.is_err() {
        let _ = std::fs::remove_file(&unfinished);
    }
    packed
}

/// Makes names durable: of the file in its deployment, of the deployment in its organization, and so on.
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
