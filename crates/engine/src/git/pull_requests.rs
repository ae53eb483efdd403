//! Refs of pull requests in a mirror. [`GitMirror::sync`] neither compares nor prunes them.

use std::collections::BTreeSet;
use std::ffi::OsString;

use berth_core::name::CommitId;
use berth_core::repository::RemoteUrl;

use super::branch::GitRemote;
use super::fetch::FetchOptions;
use super::mirror::GitMirror;
use super::remote::{GitCredential, RepositoryAccess};
use super::{CommitHash, GitError};
use crate::limits::MIRROR_PULL_REQUESTS_MAX;

const PULL_REQUESTS: &str = "refs/pull-requests";

impl GitMirror {
    /// Fetches one ref of the remote, such as `refs/pull/42/head`, as the head of a pull request, and returns the
    /// commit. If the ref has not changed, runs only `git ls-remote`.
    ///
    /// A pull request may come from a fork, so one that is too large is discarded and leaves the mirror as it was.
    pub fn fetch_pull_request(
        &self,
        url: &RemoteUrl,
        credential: Option<&GitCredential>,
        access: &RepositoryAccess,
        remote_ref: &str,
        number: i64,
    ) -> Result<CommitHash, GitError> {
        if !is_remote_ref(remote_ref) {
            return Err(GitError::Refused(format!("not the name of a ref: {}", remote_ref.escape_default())));
        }
        let name = mirror_ref(number)?;
        let from = GitRemote { url, credential, access };
        let _held = self.lock_exclusive()?;
        self.ensure_created()?;
        let Some(offered) = self.remote_head(&from, remote_ref)? else {
            return Err(GitError::Failed(format!("the repository has no {remote_ref}")));
        };
        let before = self.verify(&name)?;
        if before.as_ref() == Some(&offered) {
            return Ok(offered);
        }
        if before.is_none() && self.count_refs(PULL_REQUESTS)? >= MIRROR_PULL_REQUESTS_MAX {
            let text = format!("the repository has more than {MIRROR_PULL_REQUESTS_MAX} pull requests");
            return Err(GitError::TooLarge(text));
        }
        let packs = self.list_packs();
        let options = FetchOptions { is_one_pack: true, ..FetchOptions::default() };
        let fetched = self.run_fetch(&from, options, &[&format!("+{remote_ref}:{name}")]);
        let fetched = fetched.and_then(|()| {
            let not_a_commit = || GitError::Refused(format!("{remote_ref} is not a commit"));
            self.verify(&name)?.ok_or_else(not_a_commit)
        });
        if fetched.is_err() {
            self.restore_ref(&name, before.as_ref())?;
            if matches!(fetched, Err(GitError::TooLarge(_))) {
                self.remove_packs_except(&packs);
            }
        } else {
            self.pack();
        }
        fetched
    }

    /// Deletes the ref of a pull request. Its commits stay in the mirror, because a deployment may use them.
    pub fn remove_pull_request(&self, number: i64) -> Result<(), GitError> {
        let name = mirror_ref(number)?;
        let _held = self.lock_exclusive()?;
        if !self.path.join("HEAD").exists() {
            return Ok(());
        }
        self.restore_ref(&name, None)
    }

    fn restore_ref(&self, name: &str, before: Option<&CommitHash>) -> Result<(), GitError> {
        let git = self.git().arg("update-ref");
        let git = match before {
            Some(commit) => git.args(["--end-of-options", name, commit.as_str()]),
            None => git.args(["-d", "--end-of-options", name]),
        };
        git.run()?.ok().map(drop)
    }

    pub(super) fn count_refs(&self, below: &str) -> Result<usize, GitError> {
        let git = self.git().args(["for-each-ref", "--format=%(objectname)", below]);
        Ok(git.run()?.ok()?.text().lines().count())
    }

    pub(super) fn list_packs(&self) -> BTreeSet<OsString> {
        let entries = std::fs::read_dir(self.path.join("objects/pack")).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name()).collect()
    }

    /// Removes the packs of a refused fetch. The caller holds the mirror's lock, and no ref uses these packs.
    pub(super) fn remove_packs_except(&self, kept: &BTreeSet<OsString>) {
        for name in self.list_packs().difference(kept) {
            if let Err(error) = std::fs::remove_file(self.path.join("objects/pack").join(name)) {
                tracing::warn!(%error, "removing a pack of a refused fetch failed");
            }
        }
    }
}

/// Whether git accepts this as the full name of a single ref.
fn is_remote_ref(text: &str) -> bool {
    text.starts_with("refs/") && CommitId::parse(text).is_ok()
}

fn mirror_ref(number: i64) -> Result<String, GitError> {
    if number < 1 {
        return Err(GitError::Refused(format!("not the number of a pull request: {number}")));
    }
    Ok(format!("{PULL_REQUESTS}/{number}"))
}
