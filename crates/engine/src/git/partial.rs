//! Partial mirrors: a sync fetches commits and directories; the content of files is fetched when it is needed first.
//!
//! Git itself never fetches content in the background: every process that may access the remote is started here or in
//! [`super::fetch`], with the repository's credential and limits.

use std::fs::File;

use super::branch::GitRemote;
use super::fetch::FetchOptions;
use super::mirror::GitMirror;
use super::{CommitHash, GitError};
use crate::limits::CHECKOUT_FILES_MAX;

/// Name of the remote in the configuration of the mirror, which contains neither its URL nor a credential.
pub(super) const REMOTE: &str = "origin";
/// The filter that leaves out the content of files.
pub(super) const FILTER: &str = "blob:none";
/// File in a partial mirror.
const MARKER: &str = "berth-partial";
/// How `git rev-list` marks an object that is not in the mirror.
const MISSING: char = '?';

impl GitMirror {
    /// Returns the same mirror, which becomes partial with the next sync if `is_partial`.
    #[must_use]
    pub fn with_partial(self, is_partial: bool) -> Self {
        Self { becomes_partial: is_partial, ..self }
    }

    /// Whether the mirror may lack the content of files.
    pub fn is_partial(&self) -> bool {
        self.path.join(MARKER).exists()
    }

    /// Makes the mirror partial. What it contains stays. The caller holds the mirror's lock.
    pub(super) fn make_partial(&self) -> Result<(), GitError> {
        let (promisor, filter) =
            (format!("remote.{REMOTE}.promisor"), format!("remote.{REMOTE}.partialCloneFilter"));
        let settings = [
            ["core.repositoryFormatVersion", "1"],
            ["extensions.partialClone", REMOTE],
            [promisor.as_str(), "true"],
            [filter.as_str(), FILTER],
        ];
        for [name, value] in settings {
            self.git().args(["config", name, value]).run()?.ok()?;
        }
        let marked = File::create(self.path.join(MARKER)).and_then(|file| file.sync_all());
        marked.map_err(GitError::io("a mirror cannot be made partial"))
    }

    /// Fetches the content of files of a commit, all or those below `dir`, that is not in the mirror yet. Does nothing in
    /// a mirror that is not partial.
    pub fn fetch_missing(
        &self,
        from: &GitRemote<'_>,
        commit: &CommitHash,
        dir: Option<&str>,
    ) -> Result<(), GitError> {
        if !self.is_partial() || self.list_missing(commit, dir)?.is_empty() {
            return Ok(());
        }
        let _held = self.lock_exclusive()?;
        // Another thread may have fetched it while this one waited for the lock.
        let missing = self.list_missing(commit, dir)?;
        if missing.is_empty() {
            return Ok(());
        }
        if missing.len() > CHECKOUT_FILES_MAX {
            let text = format!("the commit has more than {CHECKOUT_FILES_MAX} files");
            return Err(GitError::TooLarge(text));
        }
        let failed = || GitError::io("there is no place for a list of objects");
        let scratch = self.scratch()?;
        let path = scratch.path().join("missing");
        std::fs::write(&path, missing.join("\n") + "\n").map_err(failed())?;
        let list = File::open(&path).map_err(failed())?;
        let options = FetchOptions { objects: Some(list), ..FetchOptions::default() };
        let packs = self.list_packs();
        self.run_fetch(from, options, &[]).map_err(|error| match error {
            GitError::TooLarge(text) => {
                // Otherwise the mirror would stay above the limit.
                self.remove_packs_except(&packs);
                GitError::TooLarge(text)
            }
            GitError::Failed(why) => GitError::Failed(format!(
                "content of the commit is not in the partial mirror, and fetching it failed: {why}"
            )),
            error => error,
        })
    }

    /// Lists the objects of a commit, or below one of its directories, that are not in the mirror.
    pub(super) fn list_missing(
        &self,
        commit: &CommitHash,
        dir: Option<&str>,
    ) -> Result<Vec<String>, GitError> {
        let tree = match dir {
            Some(dir) => format!("{commit}:{dir}"),
            None => format!("{commit}^{{tree}}"),
        };
        let git = self.git().args(["rev-parse", "--verify", "--quiet", "--end-of-options", &tree]);
        if !git.run()?.status.success() {
            return Ok(Vec::new());
        }
        let git = self.git().args(["rev-list", "--objects", "--no-object-names", "--missing=print"]);
        let ran = git.args(["--end-of-options", &tree]).run()?.ok()?;
        Ok(ran.text().lines().filter_map(|line| line.strip_prefix(MISSING)).map(str::to_owned).collect())
    }
}
