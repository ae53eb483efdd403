//! Files of a log in the data directory.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::LogError;
use super::index::{BLOCK_BYTES, LineIndex, block_start};
use super::open_log::{LogPhase, OpenLogState};
use super::sealed_log::{self, LogSeal, SealedLog, read_plain};

/// The paths of the plain and the sealed file.
pub(super) struct LogFiles {
    pub(super) plain: PathBuf,
    pub(super) packed: PathBuf,
}

pub(super) fn load(files: &LogFiles) -> Result<OpenLogState, LogError> {
    if let Some(file) = none_if_missing(File::open(&files.packed))? {
        let sealed = SealedLog::open(file)?.sealed;
        let _ = std::fs::remove_file(&files.plain);
        return Ok(OpenLogState { phase: LogPhase::Sealed(sealed), ..OpenLogState::default() });
    }
    let Some(file) = none_if_missing(open_plain(&files.plain, false))? else {
        return Ok(OpenLogState { phase: LogPhase::Open, ..OpenLogState::default() });
    };
    // The index of an unsealed log is not stored on disk, so rebuild it.
    let mut index = LineIndex::default();
    count(&file, &mut index)?;
    Ok(OpenLogState { phase: LogPhase::Open, file: Some(Arc::new(file)), index, ..OpenLogState::default() })
}

/// Adds the part of the file that is not indexed yet to the index.
pub(super) fn count(file: &File, index: &mut LineIndex) -> io::Result<()> {
    let mut buffer = vec![0; BLOCK_BYTES];
    loop {
        match file.read_at(&mut buffer, index.length())? {
            0 => return Ok(()),
            read => index.push(&buffer[..read]),
        }
    }
}

pub(super) fn open_plain(path: &Path, create: bool) -> io::Result<File> {
    // Never truncate an existing file: it contains log data.
    OpenOptions::new().read(true).write(true).create(create).truncate(false).mode(0o600).open(path)
}

/// Writes the sealed file under a temporary name, then renames it.
pub(super) fn pack(
    path: &Path,
    plain: &File,
    index: &LineIndex,
    damaged: Option<u64>,
) -> Result<LogSeal, LogError> {
    let unfinished = path.with_extension("part");
    let packed = (|| {
        let into =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
        let sealed = write_sealed(&into, plain, index, damaged)?;
        // Keep the modification time of the plain file, because retention is based on it.
        into.set_modified(plain.metadata()?.modified()?)?;
        std::fs::rename(&unfinished, path)?;
        Ok(sealed)
    })();
    if packed.is_err() {
        let _ = std::fs::remove_file(&unfinished);
    }
    packed
}

/// Writes the sealed form of a plain file.
pub(super) fn write_sealed(
    into: &File,
    plain: &File,
    index: &LineIndex,
    damaged: Option<u64>,
) -> Result<LogSeal, LogError> {
    sealed_log::write(into, index, damaged, |number, block| {
        let left = usize::try_from(index.length() - block_start(number)).unwrap_or(usize::MAX);
        Ok(read_plain(plain, block_start(number), block, left.min(BLOCK_BYTES))?)
    })
}

/// Fsyncs this many parent directories of the file.
pub(super) fn sync_dirs(path: &Path, levels: usize) -> io::Result<()> {
    path.ancestors().skip(1).take(levels).try_for_each(|dir| File::open(dir)?.sync_all())
}

pub(super) fn none_if_missing<T>(opened: io::Result<T>) -> io::Result<Option<T>> {
    match opened {
        Ok(opened) => Ok(Some(opened)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
