//! Runs the `git` program. No other module runs it.
//!
//! Each repository has a bare mirror in the data directory. All operations block; run them with [`MirrorStore::run`].
//! Repositories are untrusted: URLs and refs are validated, git runs with a clean environment and resource limits, and
//! a checkout cannot write outside of its directory.

mod authors;
mod branch;
mod checkout;
mod fetch;
mod files;
mod history;
mod host;
mod import;
mod lfs;
mod mirror;
mod partial;
mod process;
mod pull_requests;
mod remote;
mod submodules;
mod tree;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use berth_core::id::{OrgId, RegistryId, RepositoryId};
use parking_lot::Mutex;

use crate::admission::AdmissionControl;
use crate::error::EngineError;
use crate::limits::{GIT_AT_ONCE, GIT_WAITING_MAX};

pub use branch::{BRANCH_PREFIX, FileChange, GitRemote, NewCommit, NewFile, PushResult};
pub use checkout::CheckoutRemote;
pub use files::CommitFiles;
pub use history::{ChangedFile, ChangedFiles, CommitDescription};
pub use import::{import, make_bare};
pub use mirror::{BranchHeads, GitMirror};
pub use process::GitProcesses;
pub use remote::{GitCredential, RepositoryAccess};
pub use tree::{
    ChangedPaths, EntryKind, GitTreeEntry, ResolvedCommit, ambiguous_message, is_abbreviation, is_whole_hash,
};

/// The oldest git version that supports all the options used here.
pub const GIT_VERSION_MIN: [u32; 2] = [2, 39];
const VERSION_S_MAX: Duration = Duration::from_secs(10);

/// A full commit hash.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommitHash(String);

impl CommitHash {
    pub fn parse(text: &str) -> Option<Self> {
        let is_hex = text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        (matches!(text.len(), 40 | 64) && is_hex).then(|| Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for CommitHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// An error of a git operation. Its text is shown to users and contains neither credentials nor paths on the server.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    #[error("{0}")]
    Missing(String),
    #[error("git took longer than {0} s and was stopped")]
    TooSlow(u64),
    #[error("{0}")]
    TooLarge(String),
    #[error("the server is stopping")]
    Stopping,
    /// Git exited with an error.
    #[error("{0}")]
    Failed(String),
    #[error("{0}")]
    Refused(String),
    #[error("{action}: {source}")]
    Io { action: &'static str, source: std::io::Error },
}

impl GitError {
    fn io(action: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Io { action, source }
    }
}

/// Checks that git is installed and recent enough. Returns its version.
pub fn check_git() -> Result<String, GitError> {
    let live = GitProcesses::default();
    let asked = process::GitCommand::without_repository(&live, VERSION_S_MAX).arg("--version").run()?;
    let said = asked.text();
    let version = said.trim().strip_prefix("git version ").unwrap_or(&said).trim().to_owned();
    let mut numbers = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let found = [numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)];
    if found < GIT_VERSION_MIN {
        let [major, minor] = GIT_VERSION_MIN;
        return Err(GitError::Missing(format!(
            "git {version} is too old: repositories need git {major}.{minor} or newer; install it and start again"
        )));
    }
    Ok(version)
}

fn submodules_lock_name(name: &str) -> String {
    format!("{name}/submodules")
}

/// The mirrors of an installation.
pub struct MirrorStore {
    root: PathBuf,
    /// Directory for the keys and index files of running git processes. Only this server uses it, and it is emptied at
    /// startup.
    scratch: PathBuf,
    runs: AdmissionControl,
    live: GitProcesses,
    /// Timeout of a git process.
    time_max: Duration,
    /// One lock per mirror, by the mirror's name.
    locks: Mutex<HashMap<String, Arc<Mutex<()>>>>,
}

impl MirrorStore {
    pub fn new(data_dir: &Path, own_dir: &Path, time_max: Duration) -> Self {
        let scratch = own_dir.join("git-scratch");
        match std::fs::remove_dir_all(&scratch) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                tracing::error!(%error, dir = %scratch.display(), "removing the git scratch directory failed");
            }
            _ => {}
        }
        Self {
            root: data_dir.join("git"),
            scratch,
            runs: AdmissionControl::new(GIT_AT_ONCE, GIT_WAITING_MAX),
            live: GitProcesses::default(),
            time_max,
            locks: Mutex::default(),
        }
    }

    pub fn mirror(&self, org: OrgId, repository: RepositoryId) -> GitMirror {
        self.find_mirror(org, repository.to_string())
    }

    /// The mirror of a registry's repository.
    pub fn registry_mirror(&self, org: OrgId, registry: RegistryId) -> GitMirror {
        self.find_mirror(org, registry.to_string())
    }

    fn find_mirror(&self, org: OrgId, name: String) -> GitMirror {
        let path = self.root.join(org.to_string()).join(format!("{name}.git"));
        let mut locks = self.locks.lock();
        let submodule_lock = locks.entry(submodules_lock_name(&name)).or_default().clone();
        let lock = locks.entry(name).or_default().clone();
        let made = GitMirror::new(path, self.scratch.clone(), lock, self.live.clone(), self.time_max);
        GitMirror { submodule_lock, ..made }
    }

    /// Runs a blocking operation on a blocking thread. Limits the number of concurrent operations, in total and per
    /// organization.
    pub async fn run<T: Send + 'static>(
        &self,
        org: OrgId,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, EngineError> {
        self.runs.run(org, work).await
    }

    /// Removes the mirror of a deleted repository.
    pub async fn remove_mirror(&self, org: OrgId, repository: RepositoryId) {
        self.remove_named(org, repository.to_string()).await;
    }

    /// Removes the mirror of a deleted registry.
    pub async fn remove_registry_mirror(&self, org: OrgId, registry: RegistryId) {
        self.remove_named(org, registry.to_string()).await;
    }

    async fn remove_named(&self, org: OrgId, name: String) {
        let mirror = self.find_mirror(org, name.clone());
        // The removal waits for the mirror's lock. It bypasses admission control, so that it does not occupy a slot
        // while it waits.
        let removed = tokio::task::spawn_blocking(move || {
            mirror.remove()?;
            mirror.remove_submodules()
        })
        .await;
        let mut locks = self.locks.lock();
        locks.remove(&submodules_lock_name(&name));
        locks.remove(&name);
        drop(locks);
        if !matches!(removed, Ok(Ok(()))) {
            tracing::warn!(?removed, name, "removing a mirror failed");
        }
    }

    /// Kills running git processes and refuses new ones. Called at shutdown.
    pub fn stop(&self) {
        self.live.stop();
    }
}
