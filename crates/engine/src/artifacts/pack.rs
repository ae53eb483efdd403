//! Packs artifacts deterministically: identical content produces an identical archive.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::{self, Read as _, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use aws_lc_rs::digest::{Context, SHA256};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, open, openat, readlinkat, statat};
use rustix::io::Errno;
use tar::{EntryType, Header};

use super::open_beneath::{self, DIRECTORY};
use super::paths::{check_link, display_path, parts};
use super::{ARCHIVE_DEPTH_MAX, ARCHIVE_PATH_BYTES_MAX, ArtifactError, ArtifactStore, StoredArtifact};

const COMPRESSION_LEVEL: i32 = 3;
/// Flags for opening a file. Non-blocking, because opening a FIFO would otherwise wait for a writer.
const FILE: OFlags = OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);
const BLOCK_BYTES: u64 = 512;
/// A tar archive ends with two zero blocks.
const END_BYTES: u64 = 2 * BLOCK_BYTES;
/// Longest name that fits into the header of a tar entry. A longer name is stored in a separate entry.
const SHORT_NAME_BYTES: usize = 100;

pub(super) fn pack(
    artifacts: &ArtifactStore,
    workspace: &Path,
    path: &str,
    into: &File,
) -> Result<StoredArtifact, ArtifactError> {
    let parts = parts(path.as_bytes())?;
    let packer = zstd::Encoder::new(into, COMPRESSION_LEVEL)?;
    let mut archive = ArchiveWriter {
        tar: tar::Builder::new(HashingEncoder { digest: Context::new(&SHA256), packer }),
        left: artifacts.bytes_max.saturating_sub(END_BYTES),
        entries_left: artifacts.entries_max,
        root_depth: parts.len(),
        entries: 0,
        bytes: 0,
    };
    // A step may have replaced its workspace with a symlink.
    let root = open(workspace, DIRECTORY | OFlags::NOFOLLOW, Mode::empty())?;
    match parts.split_last() {
        // An empty path means the whole workspace: pack its content, without an entry for the workspace itself.
        None => archive.directory(&root, &mut Vec::new(), 0)?,
        Some((name, above)) => {
            let missing = |error| match error {
                Errno::NOENT => ArtifactError::Missing(path.to_owned()),
                Errno::LOOP | Errno::NOTDIR | Errno::XDEV => {
                    ArtifactError::refusal(path, "must not go through a symbolic link")
                }
                other => other.into(),
            };
            let dir = open_beneath::open(&root, above, DIRECTORY).map_err(missing)?;
            let mut at = above.join(&b'/');
            archive.entry(&dir, &mut at, name, parts.len() - 1).map_err(|error| match error {
                ArtifactError::Io(error) if error.kind() == io::ErrorKind::NotFound => {
                    ArtifactError::Missing(path.to_owned())
                }
                other => other,
            })?;
        }
    }
    archive.finish()
}

/// Packs a complete source checkout. The checkout has already verified that no symlink leads outside of it.
pub fn pack_source(dir: &Path) -> Result<File, ArtifactError> {
    let file = tempfile::tempfile_in(dir.parent().unwrap_or(dir))?;
    let mut tar = tar::Builder::new(zstd::Encoder::new(&file, COMPRESSION_LEVEL)?);
    tar.follow_symlinks(false);
    tar.sparse(false);
    tar.append_dir_all(".", dir)?;
    tar.into_inner()?.finish()?;
    Ok(file)
}

struct ArchiveWriter<'f> {
    tar: tar::Builder<HashingEncoder<'f>>,
    left: u64,
    entries_left: usize,
    /// Number of components in the path of the artifact. Symlinks must not lead above this level.
    root_depth: usize,
    entries: usize,
    bytes: u64,
}

impl ArchiveWriter<'_> {
    /// Adds the entry `name` of the directory `dir` to the archive. `at` is the path of `dir`.
    fn entry(
        &mut self,
        dir: &OwnedFd,
        at: &mut Vec<u8>,
        name: &[u8],
        depth: usize,
    ) -> Result<(), ArtifactError> {
        let before = at.len();
        if before > 0 {
            at.push(b'/');
        }
        at.extend_from_slice(name);
        if at.len() > ARCHIVE_PATH_BYTES_MAX || depth >= ARCHIVE_DEPTH_MAX {
            return Err(ArtifactError::refusal(display_path(at), "is nested too deeply"));
        }
        let seen = statat(dir, OsStr::from_bytes(name), AtFlags::SYMLINK_NOFOLLOW)?;
        let refused = |why| Err(ArtifactError::refusal(display_path(at), why));
        match FileType::from_raw_mode(seen.st_mode) {
            FileType::RegularFile => self.file(dir, at, name)?,
            FileType::Directory => {
                let inside =
                    openat(dir, OsStr::from_bytes(name), DIRECTORY | OFlags::NOFOLLOW, Mode::empty())?;
                let mut header = header(EntryType::Directory, 0o755, 0);
                self.count([at, b""], 0)?;
                self.tar.append_data(&mut header, as_path(at), io::empty())?;
                self.directory(&inside, at, depth + 1)?;
            }
            FileType::Symlink if depth < self.root_depth => {
                return refused("must not go through a symbolic link");
            }
            FileType::Symlink => {
                let target = readlinkat(dir, OsStr::from_bytes(name), Vec::new())?.into_bytes();
                check_link(at, depth - self.root_depth, &target)?;
                self.count([at, &target], 0)?;
                let mut header = header(EntryType::Symlink, 0o777, 0);
                self.tar.append_link(&mut header, as_path(at), as_path(&target))?;
            }
            FileType::Fifo => return refused("is a pipe"),
            FileType::Socket => return refused("is a socket"),
            FileType::CharacterDevice | FileType::BlockDevice => return refused("is a device"),
            FileType::Unknown => return refused("is neither a file nor a directory"),
        }
        at.truncate(before);
        Ok(())
    }

    fn directory(&mut self, dir: &OwnedFd, at: &mut Vec<u8>, depth: usize) -> Result<(), ArtifactError> {
        let mut names: Vec<CString> = Vec::new();
        for entry in Dir::read_from(dir)? {
            let entry = entry?;
            if names.len() > self.entries_left {
                return Err(ArtifactError::TooMany);
            }
            if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
                names.push(entry.file_name().to_owned());
            }
        }
        names.sort();
        names.iter().try_for_each(|name| self.entry(dir, at, name.to_bytes(), depth))
    }

    fn file(&mut self, dir: &OwnedFd, at: &[u8], name: &[u8]) -> Result<(), ArtifactError> {
        let mut file = File::from(openat(dir, OsStr::from_bytes(name), FILE, Mode::empty())?);
        // The file may have been replaced between `statat` and `openat`.
        let seen: Stat = fstat(&file)?;
        if FileType::from_raw_mode(seen.st_mode) != FileType::RegularFile {
            return Err(ArtifactError::refusal(display_path(at), "changed while it was being stored"));
        }
        let size = u64::try_from(seen.st_size).unwrap_or(0);
        self.count([at, b""], size)?;
        let mode = if seen.st_mode & 0o111 == 0 { 0o644 } else { 0o755 };
        let mut header = header(EntryType::Regular, mode, size);
        let mut content = (&mut file).take(size);
        self.tar.append_data(&mut header, as_path(at), &mut content)?;
        match content.limit() {
            0 => Ok(()),
            _ => Err(ArtifactError::refusal(display_path(at), "became shorter while it was being stored")),
        }
    }

    /// Counts an entry against the limits before the entry is written.
    fn count(&mut self, names: [&[u8]; 2], size: u64) -> Result<(), ArtifactError> {
        self.entries_left = self.entries_left.checked_sub(1).ok_or(ArtifactError::TooMany)?;
        let named: u64 = names.iter().map(|name| name_bytes(name)).sum();
        let most =
            size.checked_next_multiple_of(BLOCK_BYTES).and_then(|size| size.checked_add(named + BLOCK_BYTES));
        let left = most.and_then(|most| self.left.checked_sub(most));
        self.left = left.ok_or_else(|| ArtifactError::TooLarge { path: display_path(names[0]) })?;
        self.entries += 1;
        self.bytes += size;
        Ok(())
    }

    fn finish(self) -> Result<StoredArtifact, ArtifactError> {
        let HashingEncoder { digest, packer } = self.tar.into_inner()?;
        packer.finish()?;
        let digest = digest
            .finish()
            .as_ref()
            .iter()
            .fold("sha256:".to_owned(), |text, byte| format!("{text}{byte:02x}"));
        Ok(StoredArtifact { digest, bytes: self.bytes, files: self.entries })
    }
}

/// Returns the number of bytes that a name occupies in the archive in addition to the entry's header.
fn name_bytes(name: &[u8]) -> u64 {
    if name.len() < SHORT_NAME_BYTES {
        0
    } else {
        BLOCK_BYTES + (name.len() as u64 + 1).next_multiple_of(BLOCK_BYTES)
    }
}

/// Creates a header without times and owners, because they would make the digest depend on more than the content.
fn header(kind: EntryType, mode: u32, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header
}

fn as_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

/// Hashes the archive while compressing it.
struct HashingEncoder<'f> {
    digest: Context,
    packer: zstd::Encoder<'static, &'f File>,
}

impl Write for HashingEncoder<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.packer.write(bytes)?;
        self.digest.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.packer.flush()
    }
}
