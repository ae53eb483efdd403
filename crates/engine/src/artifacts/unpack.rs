//! Unpacks untrusted archives. Entries are processed one at a time, and every name and size is checked before it is
//! used.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use aws_lc_rs::digest::{Context, SHA256};
use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, open, openat, symlinkat, unlinkat};
use rustix::io::Errno;
use tar::{Entry, EntryType};

use super::open_beneath::DIRECTORY;
use super::paths::{check_link, display_path, parts};
use super::{ARCHIVE_PATH_BYTES_MAX, ArtifactError, ArtifactStore};

/// Maximum zstd window (8 MiB). Archives packed by Berth use windows of 2 MiB; a higher limit would only let a hostile
/// archive use more memory.
const WINDOW_LOG_MAX: u32 = 23;

pub(super) fn unpack(
    artifacts: &ArtifactStore,
    file: &File,
    digest: &str,
    into: &Path,
) -> Result<(), ArtifactError> {
    let mut unpacker = zstd::Decoder::new(file)?;
    unpacker.window_log_max(WINDOW_LOG_MAX)?;
    let mut source =
        LimitedHashingReader { digest: Context::new(&SHA256), from: unpacker, left: artifacts.bytes_max };
    let root = open(into, DIRECTORY, Mode::empty())?;
    entries(artifacts, &mut source, &root).map_err(|error| source.explain(error))?;
    // Data after the end of the archive is not unpacked, but it is part of the digest.
    let rest = io::copy(&mut source, &mut io::sink()).map_err(ArtifactError::from);
    rest.map_err(|error| source.explain(error))?;
    has_digest(source.digest, digest)
}

/// Reads the whole archive and verifies its digest without unpacking it.
pub(super) fn check(artifacts: &ArtifactStore, file: &File, digest: &str) -> Result<(), ArtifactError> {
    let mut unpacker = zstd::Decoder::new(file)?;
    unpacker.window_log_max(WINDOW_LOG_MAX)?;
    let mut source =
        LimitedHashingReader { digest: Context::new(&SHA256), from: unpacker, left: artifacts.bytes_max };
    let read = io::copy(&mut source, &mut io::sink()).map_err(ArtifactError::from);
    read.map_err(|error| source.explain(error))?;
    has_digest(source.digest, digest)
}

fn has_digest(found: Context, digest: &str) -> Result<(), ArtifactError> {
    let found = found.finish();
    let found = found.as_ref().iter().fold("sha256:".to_owned(), |text, byte| format!("{text}{byte:02x}"));
    match found == digest {
        true => Ok(()),
        false => Err(ArtifactError::Corrupt("it has another digest")),
    }
}

/// Unpacks an archive that a runner uploaded. Its digest is not known yet, so it is not verified.
pub(super) fn unpack_foreign(
    artifacts: &ArtifactStore,
    file: &File,
    into: &Path,
) -> Result<(), ArtifactError> {
    let mut unpacker = zstd::Decoder::new(file)?;
    unpacker.window_log_max(WINDOW_LOG_MAX)?;
    let mut source =
        LimitedHashingReader { digest: Context::new(&SHA256), from: unpacker, left: artifacts.bytes_max };
    let root = open(into, DIRECTORY, Mode::empty())?;
    entries(artifacts, &mut source, &root).map_err(|error| source.explain(error))
}

fn entries(artifacts: &ArtifactStore, source: &mut impl Read, root: &OwnedFd) -> Result<(), ArtifactError> {
    let mut archive = tar::Archive::new(source);
    let (mut long_name, mut long_target) = (None, None);
    let mut left = artifacts.entries_max;
    for entry in archive.entries()?.raw(true) {
        let mut entry = entry?;
        // A long name is stored in a separate entry that precedes the entry it names.
        let place = match entry.header().entry_type() {
            EntryType::GNULongName => &mut long_name,
            EntryType::GNULongLink => &mut long_target,
            _ => {
                left = left.checked_sub(1).ok_or(ArtifactError::TooMany)?;
                let name = long_name.take().unwrap_or_else(|| entry.header().path_bytes().into_owned());
                let target = long_target.take().or_else(|| entry.header().link_name_bytes().map(Into::into));
                create_entry(&mut entry, root, &name, target.as_deref())?;
                continue;
            }
        };
        *place = Some(read_long_name(&mut entry)?);
    }
    Ok(())
}

fn read_long_name<R: Read>(entry: &mut Entry<'_, R>) -> Result<Vec<u8>, ArtifactError> {
    let mut name = Vec::new();
    entry.take(ARCHIVE_PATH_BYTES_MAX as u64 + 2).read_to_end(&mut name)?;
    if name.last() == Some(&0) {
        name.pop();
    }
    if name.len() > ARCHIVE_PATH_BYTES_MAX {
        return Err(ArtifactError::refusal("an entry", "has a path that is too long"));
    }
    Ok(name)
}

fn create_entry<R: Read>(
    entry: &mut Entry<'_, R>,
    root: &OwnedFd,
    name: &[u8],
    target: Option<&[u8]>,
) -> Result<(), ArtifactError> {
    let refused = |why| Err(ArtifactError::refusal(display_path(name), why));
    let parts = parts(name)?;
    let Some((last, above)) = parts.split_last() else {
        // This entry stands for the target directory itself.
        let is_root = entry.header().entry_type() == EntryType::Directory;
        return if is_root { Ok(()) } else { refused("has no name") };
    };
    let last = OsStr::from_bytes(last);
    match entry.header().entry_type() {
        EntryType::Directory => create_directories(root, &parts, name).map(drop),
        EntryType::Regular | EntryType::Continuous => {
            let dir = create_directories(root, above, name)?;
            remove_existing(&dir, last, name)?;
            let executable = entry.header().mode()? & 0o111 != 0;
            let mode = Mode::from_raw_mode(if executable { 0o755 } else { 0o644 });
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let size = entry.size();
            let mut file = File::from(openat(&dir, last, flags, mode)?);
            match io::copy(entry, &mut file)? == size {
                true => Ok(()),
                false => Err(ArtifactError::Corrupt("it ends within a file")),
            }
        }
        EntryType::Symlink => {
            let target = target.unwrap_or_default();
            check_link(name, above.len(), target)?;
            let dir = create_directories(root, above, name)?;
            remove_existing(&dir, last, name)?;
            Ok(symlinkat(OsStr::from_bytes(target), &dir, last)?)
        }
        EntryType::Link => refused("is a hard link"),
        EntryType::Char | EntryType::Block => refused("is a device"),
        EntryType::Fifo => refused("is a pipe"),
        _ => refused("is of an unsupported type"),
    }
}

/// Opens a directory below the root and creates missing parents. Refuses paths that contain a symlink.
fn create_directories(root: &OwnedFd, parts: &[&[u8]], name: &[u8]) -> Result<OwnedFd, ArtifactError> {
    let mut dir = openat(root, ".", DIRECTORY, Mode::empty())?;
    for part in parts {
        let part = OsStr::from_bytes(part);
        match mkdirat(&dir, part, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        dir =
            openat(&dir, part, DIRECTORY | OFlags::NOFOLLOW, Mode::empty()).map_err(|error| match error {
                Errno::LOOP | Errno::NOTDIR => ArtifactError::refusal(
                    display_path(name),
                    "goes through something that is not a directory",
                ),
                other => other.into(),
            })?;
    }
    Ok(dir)
}

/// Removes an existing file or symlink at the destination, so that nothing is written through a symlink.
fn remove_existing(dir: &OwnedFd, last: &OsStr, name: &[u8]) -> Result<(), ArtifactError> {
    match unlinkat(dir, last, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(Errno::ISDIR | Errno::PERM) => {
            Err(ArtifactError::refusal(display_path(name), "is a directory already"))
        }
        Err(error) => Err(error.into()),
    }
}

/// Hashes everything that is read, and fails once the size limit is exceeded.
struct LimitedHashingReader<R> {
    digest: Context,
    from: R,
    left: u64,
}

impl<R> LimitedHashingReader<R> {
    /// Turns a generic read error into a specific one: too large if the size limit was reached, otherwise corrupt.
    fn explain(&self, error: ArtifactError) -> ArtifactError {
        match error {
            ArtifactError::Io(_) if self.left == 0 => ArtifactError::TooLarge { path: "its content".into() },
            ArtifactError::Io(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::Other | io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData
                ) =>
            {
                tracing::warn!(%error, "reading an artifact failed");
                ArtifactError::Corrupt("it cannot be read")
            }
            other => other,
        }
    }
}

impl<R: Read> Read for LimitedHashingReader<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(into)?;
        let left = self.left.checked_sub(read as u64);
        self.left = left.unwrap_or(0);
        if left.is_none() {
            return Err(io::Error::from(io::ErrorKind::FileTooLarge));
        }
        self.digest.update(&into[..read]);
        Ok(read)
    }
}
