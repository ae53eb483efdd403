//! A mirror: a bare copy of a repository's branches and tags, updated by [`GitMirror::sync`].
//!
//! Git objects are never deleted individually, only together with the mirror, because a deployment may use a commit
//! that is no longer on any branch.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_core::pipeline::grammar::is_branch;
use berth_core::repository::RemoteUrl;
use parking_lot::{Mutex, MutexGuard};
use tempfile::TempDir;

use super::branch::GitRemote;
use super::process::{GitCommand, GitProcesses};
use super::remote::{GitCredential, RepositoryAccess, configure_access};
use super::{CommitHash, GitError};
use crate::limits::{MIRROR_BYTES_MAX, MIRROR_REFS_MAX};

const HEADS: &str = "refs/heads/";
/// Poll interval while another server holds the mirror's file lock.
const HELD_PAUSE: Duration = Duration::from_millis(50);

/// The branches of a repository.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BranchHeads {
    /// `None` in an empty repository.
    pub default_branch: Option<String>,
    pub branches: BTreeMap<String, CommitHash>,
}

impl BranchHeads {
    /// Returns the head of the default branch.
    pub fn head(&self) -> Option<&CommitHash> {
        self.branches.get(self.default_branch.as_deref()?)
    }
}

/// Exclusive access to a mirror. Released on drop.
pub(super) struct MirrorLock<'a> {
    _process: MutexGuard<'a, ()>,
    _file: File,
}

#[derive(Clone)]
pub struct GitMirror {
    pub(super) path: PathBuf,
    pub(super) scratch: PathBuf,
    /// Held while the mirror is modified. Readers need no lock, because git only adds objects.
    pub(super) lock: Arc<Mutex<()>>,
    /// Held while a mirror of one of its submodules is modified.
    pub(super) submodule_lock: Arc<Mutex<()>>,
    pub(super) live: GitProcesses,
    pub(super) time_max: Duration,
    pub(super) bytes_max: u64,
    /// Whether the next sync makes it partial.
    pub(super) becomes_partial: bool,
}

/// The refs that a remote advertises.
struct RemoteRefs {
    default_branch: Option<String>,
    refs: BTreeMap<String, String>,
}

impl GitMirror {
    pub(super) fn new(
        path: PathBuf,
        scratch: PathBuf,
        lock: Arc<Mutex<()>>,
        live: GitProcesses,
        time_max: Duration,
    ) -> Self {
        Self {
            path,
            scratch,
            lock,
            submodule_lock: Arc::default(),
            live,
            time_max,
            bytes_max: MIRROR_BYTES_MAX,
            becomes_partial: false,
        }
    }

    /// Creates a mirror outside of the data directory, with a lock of its own.
    pub fn standalone(path: PathBuf, time_max: Duration) -> Self {
        let scratch = path.with_extension("scratch");
        Self::new(path, scratch, Arc::default(), GitProcesses::default(), time_max)
    }

    /// Returns the same mirror with a different size limit.
    #[must_use]
    pub fn with_size_limit(self, bytes_max: u64) -> Self {
        Self { bytes_max, ..self }
    }

    /// Returns the same mirror with a different timeout of its git processes.
    #[must_use]
    pub fn with_time_limit(self, time_max: Duration) -> Self {
        Self { time_max, ..self }
    }

    /// Locks the mirror against other threads and, with a file lock, against other servers that share the directory.
    pub(super) fn lock_exclusive(&self) -> Result<MirrorLock<'_>, GitError> {
        let process = self.lock.lock();
        if let Some(parent) = self.path.parent() {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(parent);
            made.map_err(GitError::io("there is no place for a mirror"))?;
        }
        let file =
            OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(self.lock_file());
        let file = file.map_err(GitError::io("a mirror cannot be locked"))?;
        let deadline = Instant::now() + self.time_max;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(MirrorLock { _process: process, _file: file }),
                Err(TryLockError::WouldBlock) if self.live.is_stopping() => return Err(GitError::Stopping),
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => std::thread::sleep(HELD_PAUSE),
                Err(TryLockError::WouldBlock) => return Err(GitError::TooSlow(self.time_max.as_secs())),
                Err(TryLockError::Error(source)) => {
                    return Err(GitError::Io { action: "a mirror cannot be locked", source });
                }
            }
        }
    }

    /// Creates a temporary directory for the keys and index files of a git process. Steps cannot read it.
    pub(super) fn scratch(&self) -> Result<TempDir, GitError> {
        let failed = || GitError::io("there is no place for files of git");
        DirBuilder::new().recursive(true).mode(0o700).create(&self.scratch).map_err(failed())?;
        tempfile::tempdir_in(&self.scratch).map_err(failed())
    }

    pub(super) fn git(&self) -> GitCommand<'_> {
        GitCommand::in_mirror(&self.live, self.time_max, &self.path)
    }

    /// Fetches new commits, branches and tags from the remote. If nothing has changed, runs only `git ls-remote`.
    pub fn sync(
        &self,
        url: &RemoteUrl,
        credential: Option<&GitCredential>,
        access: &RepositoryAccess,
    ) -> Result<BranchHeads, GitError> {
        let _held = self.lock_exclusive()?;
        let offered = self.list_remote_refs(url, credential, access)?;
        self.ensure_created()?;
        if self.becomes_partial && !self.is_partial() {
            self.make_partial()?;
        }
        if self.refs()? != offered.refs {
            self.fetch_branches(&GitRemote { url, credential, access })?;
        }
        let branches = self.refs()?.into_iter().filter_map(|(name, sha)| {
            let name = name.strip_prefix(HEADS).filter(|name| is_branch(name))?;
            Some((name.to_owned(), CommitHash::parse(&sha)?))
        });
        let branches: BTreeMap<_, _> = branches.collect();
        let default_branch = offered.default_branch.filter(|name| branches.contains_key(name));
        Ok(BranchHeads { default_branch, branches })
    }

    fn list_remote_refs(
        &self,
        url: &RemoteUrl,
        credential: Option<&GitCredential>,
        access: &RepositoryAccess,
    ) -> Result<RemoteRefs, GitError> {
        let git = GitCommand::without_repository(&self.live, self.time_max);
        let (git, key) = configure_access(self, git, url, credential, access)?;
        let git = git.args(["ls-remote", "--symref", "--end-of-options", url.as_str()]);
        let ran = git.args(["HEAD", "refs/heads/*", "refs/tags/*"]).run()?.ok()?;
        drop(key);
        let (mut refs, mut head, mut default_branch) = (BTreeMap::new(), None, None);
        for line in ran.text().lines() {
            let Some((value, name)) = line.split_once('\t') else { continue };
            if let Some(target) = value.strip_prefix("ref: ") {
                default_branch = target.strip_prefix(HEADS).map(str::to_owned);
            } else if name == "HEAD" {
                head = Some(value.to_owned());
            } else if !name.ends_with("^{}") {
                refs.insert(name.to_owned(), value.to_owned());
            }
        }
        if refs.len() > MIRROR_REFS_MAX {
            let text = format!("the repository has more than {MIRROR_REFS_MAX} branches and tags");
            return Err(GitError::TooLarge(text));
        }
        // If HEAD is detached, use a branch that points to the same commit.
        let same = |name: &&str| head.is_some() && refs.get(&format!("{HEADS}{name}")) == head.as_ref();
        let default_branch = default_branch
            .or_else(|| ["main", "master"].iter().copied().find(|name| same(name)).map(str::to_owned));
        Ok(RemoteRefs { default_branch, refs })
    }

    /// Creates the bare repository if it does not exist. The caller holds the mirror's lock.
    pub(super) fn ensure_created(&self) -> Result<(), GitError> {
        if self.path.join("HEAD").exists() {
            return Ok(());
        }
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.path);
        made.map_err(GitError::io("the mirror's directory cannot be made"))?;
        let git =
            GitCommand::without_repository(&self.live, self.time_max).hide(&self.path.to_string_lossy());
        git.args(["init", "--quiet", "--bare", "--template="]).arg(&self.path).run()?.ok().map(drop)
    }

    fn refs(&self) -> Result<BTreeMap<String, String>, GitError> {
        let git = self.git().args(["for-each-ref", "--format=%(objectname) %(refname)"]);
        let ran = git.args(["refs/heads", "refs/tags"]).run()?.ok()?;
        let text = ran.text();
        let refs = text.lines().filter_map(|line| line.split_once(' '));
        Ok(refs.map(|(sha, name)| (name.to_owned(), sha.to_owned())).collect())
    }

    /// Removes the mirror, without those of its submodules.
    pub(super) fn remove(&self) -> Result<(), GitError> {
        let _held = self.lock_exclusive()?;
        self.remove_locked()?;
        match std::fs::remove_dir_all(self.lfs_cache()) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(GitError::Io { action: "files of Git LFS cannot be removed", source: error });
            }
            _ => {}
        }
        // Removing the lock file is safe: a thread that was waiting for the lock finds that the mirror no longer
        // exists.
        let _ = std::fs::remove_file(self.lock_file());
        Ok(())
    }

    fn lock_file(&self) -> PathBuf {
        self.path.with_extension("held")
    }

    /// Renames the mirror before removing it, so that readers see either a complete mirror or none.
    pub(super) fn remove_locked(&self) -> Result<(), GitError> {
        let away = self.path.with_extension("gone");
        let _ = std::fs::remove_dir_all(&away);
        match std::fs::rename(&self.path, &away) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            other => other
                .and_then(|()| std::fs::remove_dir_all(&away))
                .map_err(GitError::io("the mirror cannot be removed")),
        }
    }
}
