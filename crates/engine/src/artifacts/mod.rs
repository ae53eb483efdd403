//! What steps leave for later ones: a file or a directory, packed, and named after its own content.
//!
//! The digest is that of the uncompressed archive, in which nothing depends on when, where or by whom it was made. So
//! the same content is one file, however often it is kept. Steps write what is packed, and they may be hostile: every
//! path is walked from a directory's descriptor, link by link, and an archive is believed in nothing.

mod beneath;
mod keep;
mod names;
mod old;
#[cfg(test)]
mod tests;
mod unpack;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use berth_core::id::OrgId;

pub use keep::pack_source;
use old::Lock;

/// An archive before it is compressed.
pub const ARTIFACT_BYTES_MAX: u64 = 2 * 1024 * 1024 * 1024;
pub const ARCHIVE_ENTRIES_MAX: usize = 50_000;
/// Directories in each other.
pub const ARCHIVE_DEPTH_MAX: usize = 100;
/// The path of an entry, and the target of a link.
pub const ARCHIVE_PATH_BYTES_MAX: usize = 4_095;

#[derive(Clone)]
pub struct Artifacts {
    dir: PathBuf,
    bytes_max: u64,
    entries_max: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// `sha256:` and 64 digits.
    pub digest: String,
    /// Of the archive before it was compressed.
    pub bytes: u64,
    /// Files, links and directories in it.
    pub files: usize,
}

#[derive(Debug, thiserror::Error)]
pub enum ArtifactError {
    #[error("there is nothing at {0}")]
    Missing(String),
    /// The text says what about it is not possible.
    #[error("{path}: {why}")]
    Refused { path: String, why: &'static str },
    #[error("an artifact may have {ARTIFACT_BYTES_MAX} bytes; {path} is too much")]
    TooLarge { path: String },
    #[error("an artifact may have {ARCHIVE_ENTRIES_MAX} files")]
    TooMany,
    #[error(
        "there is no artifact {0}; if it was removed because it is old (retention.artifact_days), deploy the commit again"
    )]
    Unknown(String),
    #[error("the artifact is not what was kept: {0}")]
    Corrupt(&'static str),
    #[error("the disk is full")]
    Full,
    #[error("an artifact cannot be read or written: {0}")]
    Io(io::Error),
}

impl ArtifactError {
    fn refused(path: impl Into<String>, why: &'static str) -> Self {
        Self::Refused { path: path.into(), why }
    }
}

impl From<io::Error> for ArtifactError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full,
            _ => Self::Io(error),
        }
    }
}

impl From<rustix::io::Errno> for ArtifactError {
    fn from(error: rustix::io::Errno) -> Self {
        io::Error::from(error).into()
    }
}

impl Artifacts {
    /// Nothing is made or read before the first artifact is.
    pub fn new(dir: PathBuf) -> Self {
        Self { dir, bytes_max: ARTIFACT_BYTES_MAX, entries_max: ARCHIVE_ENTRIES_MAX }
    }

    /// With another limit on what one may have.
    #[must_use]
    pub fn limited_to(&self, bytes_max: u64) -> Self {
        Self { bytes_max, ..self.clone() }
    }

    /// Keeps what lies at `path` below the workspace. In the archive it has the same path.
    pub fn keep(&self, org: OrgId, workspace: &Path, path: &str) -> Result<Kept, ArtifactError> {
        let dir = self.dir.join(org.to_string()).join("sha256");
        std::fs::create_dir_all(&dir)?;
        let unfinished = tempfile::Builder::new().prefix("part-").tempfile_in(&dir)?;
        let packed = keep::pack(self, workspace, path, unfinished.as_file())?;
        let place = self.place(org, &packed.digest)?;
        let _lock = self.lock(org, Lock::Shared)?;
        if !self.renew(&place)? {
            let above = place.parent().unwrap_or(&dir);
            std::fs::create_dir_all(above)?;
            unfinished.as_file().sync_all()?;
            unfinished.persist(&place).map_err(|error| error.error)?;
            // The file in its directory, that one in `sha256`, and so on up to ours.
            let mut dirs = place.ancestors().skip(1).take(4);
            dirs.try_for_each(|dir| File::open(dir)?.sync_all())?;
        }
        Ok(packed)
    }

    /// Unpacks into a directory, over what is there. After an error the directory is good for nothing.
    pub fn unpack(&self, org: OrgId, digest: &str, into: &Path) -> Result<(), ArtifactError> {
        let place = self.place(org, digest)?;
        match File::open(place) {
            Ok(file) => unpack::unpack(self, &file, digest, into),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(ArtifactError::Unknown(digest.to_owned()))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Whether it is there, and what its name says.
    pub fn check(&self, org: OrgId, digest: &str) -> Result<(), ArtifactError> {
        unpack::check(self, &self.packed(org, digest)?, digest)
    }

    /// The archive as it lies here.
    pub fn packed(&self, org: OrgId, digest: &str) -> Result<File, ArtifactError> {
        File::open(self.place(org, digest)?).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => ArtifactError::Unknown(digest.to_owned()),
            _ => error.into(),
        })
    }

    /// Keeps what lies at `path` in an archive from elsewhere, which is believed in nothing.
    pub fn receive(&self, org: OrgId, packed: &File, path: &str) -> Result<Kept, ArtifactError> {
        let dir = self.scratch()?;
        unpack::unpack_foreign(self, packed, dir.path())?;
        self.keep(org, dir.path(), path)
    }

    /// An empty directory that is removed with what holds it.
    pub fn scratch(&self) -> Result<tempfile::TempDir, ArtifactError> {
        std::fs::create_dir_all(&self.dir)?;
        Ok(tempfile::Builder::new().prefix("scratch-").tempdir_in(&self.dir)?)
    }

    /// A file for what arrives, which is nowhere once it is closed.
    pub fn incoming(&self) -> Result<File, ArtifactError> {
        std::fs::create_dir_all(&self.dir)?;
        Ok(tempfile::tempfile_in(&self.dir)?)
    }

    pub fn has(&self, org: OrgId, digest: &str) -> bool {
        self.place(org, digest).is_ok_and(|place| place.exists())
    }

    /// Only digests reach a path, and only digits of theirs.
    fn place(&self, org: OrgId, digest: &str) -> Result<PathBuf, ArtifactError> {
        let digits = digest.strip_prefix("sha256:").filter(|digits| {
            digits.len() == 64 && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        });
        let (first, rest) = digits.ok_or_else(|| ArtifactError::Unknown(digest.to_owned()))?.split_at(2);
        Ok(self.dir.join(org.to_string()).join("sha256").join(first).join(rest))
    }
}
