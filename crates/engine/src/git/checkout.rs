//! Checks out the files of a commit into an empty directory. Never writes outside of the directory.

use std::collections::VecDeque;
use std::path::{Component, Path, PathBuf};
use std::time::{Instant, SystemTime};

use berth_core::repository::RemoteUrl;
use tempfile::TempDir;

use super::branch::GitRemote;
use super::fetch::FetchOptions;
use super::mirror::GitMirror;
use super::remote::{GitCredential, RepositoryAccess};
use super::tree::{EntryKind, GitTreeEntry};
use super::{CommitHash, GitError};
use crate::limits::{CHECKOUT_BYTES_MAX, CHECKOUT_FILES_MAX};

/// Maximum length of a chain of symlinks. A longer chain is treated as a loop, as in the kernel.
const LINKS_FOLLOWED_MAX: usize = 40;
/// Maximum number of paths named in an error message.
pub(super) const NAMED_MAX: usize = 5;

/// Where a checkout gets what is not in the mirror: submodules, and files of Git LFS.
#[derive(Clone, Copy)]
pub struct CheckoutRemote<'a> {
    pub url: &'a RemoteUrl,
    pub access: &'a RepositoryAccess,
    /// Reads the repository's credential. Called only if it is needed.
    pub credential: &'a dyn Fn() -> Result<Option<GitCredential>, GitError>,
}

/// A repository that is part of a checkout: the repository itself, or a submodule.
pub(super) struct CheckoutPart {
    pub(super) mirror: GitMirror,
    pub(super) url: Option<RemoteUrl>,
    pub(super) commit: CommitHash,
    /// Relative to the root of the checkout; empty for the repository itself.
    pub(super) path: String,
    /// Number of repositories that contain this one.
    pub(super) depth: usize,
}

/// What has been checked out so far.
pub(super) struct CheckoutProgress<'a> {
    root: &'a Path,
    files: usize,
    bytes: u64,
    links: Vec<String>,
    pub(super) submodules: usize,
    pub(super) began: SystemTime,
    /// When fetching submodules must be done.
    pub(super) deadline: Instant,
}

impl CheckoutProgress<'_> {
    /// Counts files towards the limits of the checkout.
    fn count(&mut self, entries: &[GitTreeEntry]) -> Result<(), GitError> {
        self.files += entries.len();
        self.count_bytes(entries.iter().map(|entry| entry.bytes))
    }

    pub(super) fn count_bytes(&mut self, sizes: impl Iterator<Item = u64>) -> Result<(), GitError> {
        self.bytes = sizes.fold(self.bytes, u64::saturating_add);
        if self.files > CHECKOUT_FILES_MAX || self.bytes > CHECKOUT_BYTES_MAX {
            return Err(GitError::TooLarge(format!(
                "the commit has {} files and {} MiB; at most {CHECKOUT_FILES_MAX} and {} are unpacked",
                self.files,
                self.bytes / (1024 * 1024),
                CHECKOUT_BYTES_MAX / (1024 * 1024),
            )));
        }
        Ok(())
    }

    /// Returns the directory of a repository. Git has created that of a submodule together with the files around it.
    fn part_dir(&self, part: &str) -> Result<PathBuf, GitError> {
        let mut dir = self.root.to_owned();
        for name in part.split('/').filter(|name| !name.is_empty()) {
            dir.push(name);
            if !std::fs::symlink_metadata(&dir).is_ok_and(|found| found.is_dir()) {
                return Err(GitError::Refused("there is no directory for it".into()));
            }
        }
        Ok(dir)
    }

    fn check_links(&self) -> Result<(), GitError> {
        let is_out = |path: &&str| leads_out(self.root, path);
        let out: Vec<_> = self.links.iter().map(String::as_str).filter(is_out).collect();
        if out.is_empty() {
            return Ok(());
        }
        let named = out[..out.len().min(NAMED_MAX)].join(", ");
        Err(GitError::Refused(format!("symlinks lead out of the repository: {named}")))
    }
}

impl GitMirror {
    /// Checks out a commit with its submodules and files of Git LFS into `into`, which must be empty. Keeps executable bits, and runs no
    /// hooks or filters. After an error, the directory is empty again.
    pub fn checkout_complete(
        &self,
        from: CheckoutRemote<'_>,
        commit: &CommitHash,
        into: &Path,
    ) -> Result<(), GitError> {
        match self.run_checkout(Some(from), commit, into) {
            // Without a shared directory, each server has its own mirror, and only the leader syncs.
            Err(error)
                if !matches!(error, GitError::Stopping) && !self.has_commit(commit).unwrap_or(false) =>
            {
                let credential = (from.credential)()?;
                let remote =
                    GitRemote { url: from.url, credential: credential.as_ref(), access: from.access };
                self.fetch_commit(&remote, commit)?;
                self.run_checkout(Some(from), commit, into)
            }
            done => done,
        }
    }

    /// Fetches a commit that another server has synced. If it is not on a branch or tag any more, it is fetched by its
    /// hash, which not every host allows.
    fn fetch_commit(&self, from: &GitRemote<'_>, commit: &CommitHash) -> Result<(), GitError> {
        self.sync(from.url, from.credential, from.access)?;
        if self.has_commit(commit)? {
            return Ok(());
        }
        let _held = self.lock_exclusive()?;
        self.run_fetch(from, FetchOptions::default(), &[commit.as_str()])
    }

    /// Like [`GitMirror::checkout_complete`], but only reads the mirror: directories of submodules stay empty, and
    /// files of Git LFS stay pointers.
    pub fn checkout(&self, commit: &CommitHash, into: &Path) -> Result<(), GitError> {
        self.run_checkout(None, commit, into)
    }

    fn run_checkout(
        &self,
        from: Option<CheckoutRemote<'_>>,
        commit: &CommitHash,
        into: &Path,
    ) -> Result<(), GitError> {
        let failed = || GitError::io("the directory for the checkout cannot be used");
        if std::fs::read_dir(into).map_err(failed())?.next().is_some() {
            return Err(GitError::Refused("the directory for the checkout is not empty".into()));
        }
        let mut progress = CheckoutProgress {
            root: into,
            files: 0,
            bytes: 0,
            links: Vec::new(),
            submodules: 0,
            began: SystemTime::now(),
            deadline: Instant::now() + self.time_max,
        };
        let done = self.unpack_all(from, commit, &mut progress).and_then(|()| progress.check_links());
        if done.is_err() {
            clear_dir(into);
        }
        done
    }

    fn unpack_all(
        &self,
        from: Option<CheckoutRemote<'_>>,
        commit: &CommitHash,
        progress: &mut CheckoutProgress<'_>,
    ) -> Result<(), GitError> {
        let whole = CheckoutPart {
            mirror: self.clone(),
            url: from.map(|from| from.url.clone()),
            commit: commit.clone(),
            path: String::new(),
            depth: 0,
        };
        let mut pending = VecDeque::from([whole]);
        while let Some(part) = pending.pop_front() {
            let found = self.unpack_part(from, &part, progress);
            pending.extend(found.map_err(|error| name_submodule(&part.path, error))?);
        }
        Ok(())
    }

    /// Unpacks one repository. Returns its submodules.
    fn unpack_part(
        &self,
        from: Option<CheckoutRemote<'_>>,
        part: &CheckoutPart,
        progress: &mut CheckoutProgress<'_>,
    ) -> Result<Vec<CheckoutPart>, GitError> {
        if let (Some(from), Some(url), true) = (from, &part.url, part.depth > 0) {
            self.fetch_submodule(from, url, part, progress)?;
        }
        if part.depth == 0 && part.mirror.is_partial() {
            part.mirror.complete_commit(from, &part.commit)?;
        }
        let entries = part.mirror.entries(&part.commit, None, &["-r"])?;
        progress.count(&entries)?;
        let dir = progress.part_dir(&part.path)?;
        let index = part.mirror.unpack(&part.commit, &dir)?;
        let links = entries.iter().filter(|entry| entry.kind == EntryKind::Symlink);
        progress.links.extend(links.map(|entry| join_path(&part.path, &entry.path)));
        let Some(from) = from else { return Ok(Vec::new()) };
        self.replace_pointers(from, part, &entries, (dir.as_path(), &index), progress)?;
        self.find_submodules(part, &entries, progress)
    }

    /// Fetches the content of a commit that a partial mirror lacks.
    fn complete_commit(&self, from: Option<CheckoutRemote<'_>>, commit: &CommitHash) -> Result<(), GitError> {
        if self.list_missing(commit, None)?.is_empty() {
            return Ok(());
        }
        let Some(CheckoutRemote { url, access, credential }) = from else {
            let text = "content of the commit is not in the partial mirror, and its repository was removed";
            return Err(GitError::Missing(text.into()));
        };
        let credential = credential()?;
        self.fetch_missing(&GitRemote { url, credential: credential.as_ref(), access }, commit, None)
    }

    /// Unpacks the files of a commit. Returns the temporary index.
    fn unpack(&self, commit: &CommitHash, into: &Path) -> Result<TempDir, GitError> {
        // Use a temporary index, because git would otherwise write to the index of the mirror.
        let index = self.scratch()?;
        let git = self.git().arg("--work-tree").arg(into).env("GIT_INDEX_FILE", index.path().join("index"));
        git.hide(&into.to_string_lossy())
            .args(["read-tree", "--reset", "-u", "--no-recurse-submodules", commit.as_str()])
            .run()?
            .ok()?;
        Ok(index)
    }
}

pub(super) fn join_path(dir: &str, path: &str) -> String {
    if dir.is_empty() { path.to_owned() } else { format!("{dir}/{path}") }
}

/// Adds the path of the submodule to an error.
fn name_submodule(path: &str, error: GitError) -> GitError {
    let name = |text: String| format!("submodule {path}: {text}");
    match error {
        error if path.is_empty() => error,
        GitError::Missing(text) => GitError::Missing(name(text)),
        GitError::TooLarge(text) => GitError::TooLarge(name(text)),
        GitError::Failed(text) => GitError::Failed(name(text)),
        GitError::Refused(text) => GitError::Refused(name(text)),
        slow @ GitError::TooSlow(_) => GitError::Failed(name(slow.to_string())),
        error @ (GitError::Stopping | GitError::Io { .. }) => error,
    }
}

/// Whether a symlink leads outside of `root`. Resolves it component by component, like the kernel.
fn leads_out(root: &Path, link: &str) -> bool {
    let mut place = PathBuf::new();
    let mut ahead: VecDeque<String> = link.split('/').map(str::to_owned).collect();
    let mut followed = 0;
    while let Some(part) = ahead.pop_front() {
        if part == ".." {
            if !place.pop() {
                return true;
            }
            continue;
        }
        place.push(&part);
        let Ok(target) = std::fs::read_link(root.join(&place)) else { continue };
        followed += 1;
        if target.is_absolute() {
            return true;
        }
        if followed > LINKS_FOLLOWED_MAX {
            return false;
        }
        place.pop();
        for part in target.components().rev() {
            match part {
                Component::ParentDir => ahead.push_front("..".to_owned()),
                Component::Normal(name) => ahead.push_front(name.to_string_lossy().into_owned()),
                Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
            }
        }
    }
    false
}

fn clear_dir(dir: &Path) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let removed =
            if is_dir { std::fs::remove_dir_all(entry.path()) } else { std::fs::remove_file(entry.path()) };
        if let Err(error) = removed {
            tracing::warn!(%error, "removing a failed checkout failed");
        }
    }
}
