//! Artifacts: files and directories that a step stores for later steps, packed into content-addressed archives.
//!
//! An artifact is identified by the digest of its uncompressed archive. The archive contains no times, owners or
//! absolute paths, so identical content is stored only once. Steps produce the content and may be hostile: paths are
//! resolved relative to a directory descriptor, one component at a time, and no field of an archive is trusted.

mod objects;
mod open_beneath;
mod pack;
mod paths;
mod retention;
#[cfg(test)]
mod tests;
mod unpack;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use std::sync::Arc;

use berth_core::id::OrgId;

use crate::object_storage::{ObjectTier, StorageError};
use objects::ArtifactObjects;
pub use pack::pack_source;
use retention::ArtifactLockMode;

/// Limit for the uncompressed archive.
pub const ARTIFACT_BYTES_MAX: u64 = 2 * 1024 * 1024 * 1024;
pub const ARCHIVE_ENTRIES_MAX: usize = 50_000;
/// Maximum nesting depth of directories.
pub const ARCHIVE_DEPTH_MAX: usize = 100;
/// Maximum length of an entry's path and of a symlink's target.
pub const ARCHIVE_PATH_BYTES_MAX: usize = 4_095;

#[derive(Clone)]
pub struct ArtifactStore {
    dir: PathBuf,
    bytes_max: u64,
    entries_max: usize,
    /// If artifacts are in object storage, the directory is only used for those that are being packed or received.
    objects: Option<ArtifactObjects>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredArtifact {
    /// `sha256:` and 64 hexadecimal digits.
    pub digest: String,
    /// Total size of the files.
    pub bytes: u64,
    /// Number of files, links and directories.
    pub files: usize,
}

#[derive(Debug, thiserror::Error)]
pub enum ArtifactError {
    #[error("there is nothing at {0}")]
    Missing(String),
    /// `why` says what is wrong with the path.
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
    #[error("an artifact cannot be read or written: {0}")]
    Storage(#[from] StorageError),
}

impl ArtifactError {
    /// Whether the operation may succeed later.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Full | Self::Io(_) => true,
            Self::Storage(error) => !matches!(error, StorageError::Corrupt(_) | StorageError::Missing(_)),
            _ => false,
        }
    }

    fn refusal(path: impl Into<String>, why: &'static str) -> Self {
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

impl ArtifactStore {
    /// Does not touch the disk. The directories are created when the first artifact is stored.
    pub fn new(dir: PathBuf) -> Self {
        Self { dir, bytes_max: ARTIFACT_BYTES_MAX, entries_max: ARCHIVE_ENTRIES_MAX, objects: None }
    }

    /// Creates a store with the artifacts in object storage. `dir` must not be used by another server.
    pub fn with_objects(dir: PathBuf, objects: Arc<ObjectTier>) -> Self {
        Self { objects: Some(ArtifactObjects(objects)), ..Self::new(dir) }
    }

    /// Returns the same store with a different size limit.
    #[must_use]
    pub fn with_size_limit(&self, bytes_max: u64) -> Self {
        Self { bytes_max, ..self.clone() }
    }

    /// Stores a file or directory of the workspace as an artifact. The archive contains it under the same `path`.
    pub fn store_path(
        &self,
        org: OrgId,
        workspace: &Path,
        path: &str,
    ) -> Result<StoredArtifact, ArtifactError> {
        if let Some(objects) = &self.objects {
            let archive = self.upload_file()?;
            let packed = pack::pack(self, workspace, path, &archive)?;
            objects.store(org, &packed.digest, &archive)?;
            return Ok(packed);
        }
        let dir = self.dir.join(org.to_string()).join("sha256");
        std::fs::create_dir_all(&dir)?;
        let unfinished = tempfile::Builder::new().prefix("part-").tempfile_in(&dir)?;
        let packed = pack::pack(self, workspace, path, unfinished.as_file())?;
        let place = self.archive_path(org, &packed.digest)?;
        let _lock = self.lock(org, ArtifactLockMode::Shared)?;
        if !self.renew(&place)? {
            let above = place.parent().unwrap_or(&dir);
            std::fs::create_dir_all(above)?;
            unfinished.as_file().sync_all()?;
            unfinished.persist(&place).map_err(|error| error.error)?;
            // Fsync every directory from the one that contains the file up to the root of the store.
            let mut dirs = place.ancestors().skip(1).take(4);
            dirs.try_for_each(|dir| File::open(dir)?.sync_all())?;
        }
        Ok(packed)
    }

    /// Unpacks the artifact into a directory and overwrites existing files. After an error, the content of the
    /// directory is unspecified.
    pub fn unpack(&self, org: OrgId, digest: &str, into: &Path) -> Result<(), ArtifactError> {
        unpack::unpack(self, &self.open_packed(org, digest)?, digest, into)
    }

    /// Checks that the artifact exists and that its content matches its digest.
    pub fn check(&self, org: OrgId, digest: &str) -> Result<(), ArtifactError> {
        unpack::check(self, &self.open_packed(org, digest)?, digest)
    }

    /// Opens the compressed archive of the artifact.
    pub fn open_packed(&self, org: OrgId, digest: &str) -> Result<File, ArtifactError> {
        let place = self.archive_path(org, digest)?;
        if let Some(objects) = &self.objects {
            return objects.open(org, digest);
        }
        File::open(place).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => ArtifactError::Unknown(digest.to_owned()),
            _ => error.into(),
        })
    }

    /// Returns the size of the compressed archive, or `None` if the artifact does not exist.
    pub fn size_of(&self, org: OrgId, digest: &str) -> Result<Option<u64>, ArtifactError> {
        let place = self.archive_path(org, digest)?;
        if let Some(objects) = &self.objects {
            return objects.size_of(org, digest);
        }
        match std::fs::metadata(place) {
            Ok(info) => Ok(Some(info.len())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Extracts the file or directory at `path` from an untrusted archive, and stores it as an artifact.
    pub fn receive(&self, org: OrgId, packed: &File, path: &str) -> Result<StoredArtifact, ArtifactError> {
        let dir = self.scratch_dir()?;
        unpack::unpack_foreign(self, packed, dir.path())?;
        self.store_path(org, dir.path(), path)
    }

    /// Creates an empty temporary directory that is removed on drop.
    pub fn scratch_dir(&self) -> Result<tempfile::TempDir, ArtifactError> {
        std::fs::create_dir_all(&self.dir)?;
        Ok(tempfile::Builder::new().prefix("scratch-").tempdir_in(&self.dir)?)
    }

    /// Stores an archive that was packed by another installation or storage. Its digest is verified first.
    pub fn store_archive(&self, org: OrgId, digest: &str, archive: &File) -> Result<(), ArtifactError> {
        unpack::check(self, archive, digest)?;
        match &self.objects {
            Some(objects) => objects.store(org, digest, archive),
            None => Err(ArtifactError::Unknown(digest.to_owned())),
        }
    }

    /// Creates an unnamed temporary file that receives an upload.
    pub fn upload_file(&self) -> Result<File, ArtifactError> {
        std::fs::create_dir_all(&self.dir)?;
        Ok(tempfile::tempfile_in(&self.dir)?)
    }

    pub fn contains(&self, org: OrgId, digest: &str) -> Result<bool, ArtifactError> {
        let place = self.archive_path(org, digest)?;
        match &self.objects {
            Some(objects) => objects.contains(org, digest),
            None => Ok(place.try_exists()?),
        }
    }

    /// Returns the path of an artifact's archive. The digest is validated first, so it cannot contain path separators.
    fn archive_path(&self, org: OrgId, digest: &str) -> Result<PathBuf, ArtifactError> {
        let digits = digest.strip_prefix("sha256:").filter(|digits| {
            digits.len() == 64 && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        });
        let (first, rest) = digits.ok_or_else(|| ArtifactError::Unknown(digest.to_owned()))?.split_at(2);
        Ok(self.dir.join(org.to_string()).join("sha256").join(first).join(rest))
    }
}
