//! The work directory of a remote runner. It is locked by one process at a time, and leftovers of earlier processes are
//! removed.

use std::fs::{DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use crate::leftovers::kill_leftovers;
use crate::settings::RunnerStartError;

/// A locked work directory.
pub struct RemoteWorkDir {
    path: PathBuf,
    _lock: File,
}

impl RemoteWorkDir {
    /// Opens and locks the directory, and kills leftover processes of an earlier runner.
    pub fn open(path: &Path) -> Result<Self, RunnerStartError> {
        let failed = |source| RunnerStartError::WorkDir { path: path.to_owned(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
        let found = path.canonicalize().map_err(failed)?;
        std::fs::set_permissions(&found, Permissions::from_mode(0o700)).map_err(failed)?;
        let lock = found.join("home.lock");
        let lock = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(lock);
        let lock = lock.map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(RunnerStartError::InUse(found)),
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        let left = kill_leftovers(&found).map_err(failed)?;
        if left.processes > 0 || left.attempts > 0 {
            tracing::info!(left.processes, left.attempts, "cleaned up after an earlier process");
        }
        Ok(Self { path: found, _lock: lock })
    }

    /// The canonical path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}
