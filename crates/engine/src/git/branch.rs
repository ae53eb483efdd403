//! Creates a branch with a single commit in the mirror, without a work tree, and pushes it to the remote.
//!
//! An existing branch is never moved: the push only succeeds if the branch does not exist yet.

use berth_analysis::diff::FILES_MAX;
use berth_core::pipeline::grammar::is_branch;
use berth_core::repository::RemoteUrl;
use berth_core::time::Timestamp;
use tempfile::TempDir;

use super::mirror::GitMirror;
use super::remote::{GitCredential, RepositoryAccess, configure_access};
use super::{CommitHash, GitError};

/// Committer name of all commits that Berth creates. The author may be a user.
const BOT_NAME: &str = "Berth";
pub(super) const BOT_EMAIL: &str = "berth@noreply.invalid";
/// Prefix of all branches that Berth creates. Berth never writes any other branch.
pub const BRANCH_PREFIX: &str = "berth/";

/// A change to one file in a new commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// Relative to the root of the repository.
    pub path: String,
    /// `None` deletes the file.
    pub after: Option<NewFile>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewFile {
    pub content: Vec<u8>,
    pub is_executable: bool,
}

/// A commit to create.
#[derive(Debug, Clone, Copy)]
pub struct NewCommit<'a> {
    pub parent: &'a CommitHash,
    pub changes: &'a [FileChange],
    pub message: &'a str,
    /// Address of the user who requested the commit. Approval rules use it to identify the author.
    pub author_email: &'a str,
    pub at: Timestamp,
}

/// The result of a push.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushResult {
    /// The commit that the branch points to.
    pub commit: CommitHash,
    /// The branch already existed with the same content.
    pub was_there: bool,
}

impl GitMirror {
    /// Creates a commit. Deterministic: the same arguments always produce the same hash.
    pub fn commit(&self, new: NewCommit<'_>) -> Result<CommitHash, GitError> {
        let NewCommit { parent, changes, message, author_email, at } = new;
        if changes.is_empty() || changes.len() > FILES_MAX {
            return Err(GitError::Refused(format!("a commit must change 1 to {FILES_MAX} files")));
        }
        let _held = self.lock_exclusive()?;
        let index = self.scratch()?;
        self.git_with_index(&index).args(["read-tree", "--end-of-options", parent.as_str()]).run()?.ok()?;
        for change in changes {
            self.stage_change(&index, change)?;
        }
        let tree = self.git_with_index(&index).arg("write-tree").run()?.ok()?.text();
        let tree = parse_hash(&tree)?;
        let old = self.git().args(["rev-parse", "--verify", &format!("{parent}^{{tree}}")]).run()?.ok()?;
        if parse_hash(&old.text())? == tree {
            return Err(GitError::Refused("the commit would change nothing".into()));
        }
        let when = format!("{} +0000", at.as_micros() / 1_000_000);
        let git = self.git().env("GIT_AUTHOR_NAME", BOT_NAME).env("GIT_AUTHOR_EMAIL", author_email);
        let git = git.env("GIT_COMMITTER_NAME", BOT_NAME).env("GIT_COMMITTER_EMAIL", BOT_EMAIL);
        let git = git.env("GIT_AUTHOR_DATE", when.as_str()).env("GIT_COMMITTER_DATE", when.as_str());
        let git = git.args(["commit-tree", tree.as_str(), "-p", parent.as_str(), "-m", message]);
        parse_hash(&git.run()?.ok()?.text())
    }

    /// Pushes a commit as a new branch. Refuses to write the branches in `kept`.
    pub fn push_new(
        &self,
        to: &GitRemote<'_>,
        commit: &CommitHash,
        branch: &str,
        kept: &[&str],
    ) -> Result<PushResult, GitError> {
        if !branch.starts_with(BRANCH_PREFIX) || !is_branch(branch) || kept.contains(&branch) {
            return Err(GitError::Refused(format!(
                "only new branches that begin with {BRANCH_PREFIX} are written"
            )));
        }
        let full = format!("refs/heads/{branch}");
        match self.remote_head(to, &full)? {
            Some(there) if self.is_same(&there, commit)? => {
                return Ok(PushResult { commit: there, was_there: true });
            }
            Some(_) => {
                return Err(GitError::Refused(format!(
                    "the branch {branch} already exists with other content; delete it, or merge it"
                )));
            }
            None => {}
        }
        let (git, key) = configure_access(self, self.git(), to.url, to.credential, to.access)?;
        // The empty `--force-with-lease` value requires that the branch does not exist on the remote. A branch that was
        // created in the meantime is therefore not moved, not even by a fast-forward.
        let git = git.args(["push", "--quiet", "--no-verify", "--no-follow-tags", "--recurse-submodules=no"]);
        let git = git.arg(format!("--force-with-lease={full}:")).args(["--end-of-options", to.url.as_str()]);
        let ran = git.arg(format!("{commit}:{full}")).run()?.ok();
        drop(key);
        ran.map(|_| PushResult { commit: commit.clone(), was_there: false })
    }

    /// Whether both commits have the same tree and the same parents, regardless of author and time.
    fn is_same(&self, there: &CommitHash, ours: &CommitHash) -> Result<bool, GitError> {
        if there == ours {
            return Ok(true);
        }
        let of = |commit: &CommitHash| {
            let git = self.git().args(["log", "-1", "--format=%T %P", "--end-of-options", commit.as_str()]);
            Ok::<_, GitError>(git.run()?.ok().ok().map(|ran| ran.text()))
        };
        // A commit that is not in the mirror was not created by Berth.
        Ok(of(there)?.is_some_and(|there| of(ours).is_ok_and(|ours| ours.as_deref() == Some(&there))))
    }

    /// Returns the commit that a branch on the remote points to.
    pub(super) fn remote_head(&self, to: &GitRemote<'_>, full: &str) -> Result<Option<CommitHash>, GitError> {
        let (git, key) = configure_access(self, self.git(), to.url, to.credential, to.access)?;
        let git = git.args(["ls-remote", "--end-of-options", to.url.as_str(), full]);
        let ran = git.run()?.ok()?;
        drop(key);
        let text = ran.text();
        let found = text.lines().filter_map(|line| line.split_once('\t'));
        Ok(found.into_iter().find(|(_, name)| *name == full).and_then(|(sha, _)| CommitHash::parse(sha)))
    }

    fn stage_change(&self, index: &TempDir, change: &FileChange) -> Result<(), GitError> {
        let git = self.git_with_index(index).arg("update-index");
        let git = match &change.after {
            None => git.args(["--force-remove", "--", &change.path]),
            Some(file) => {
                let mode = if file.is_executable { "100755" } else { "100644" };
                let sha = self.store_blob(&file.content)?;
                git.args(["--add", "--cacheinfo"]).arg(format!("{mode},{sha},{}", change.path))
            }
        };
        git.run()?.ok().map(drop)
    }

    /// Stores content as a blob, unchanged: without filters or line-ending conversion.
    fn store_blob(&self, content: &[u8]) -> Result<CommitHash, GitError> {
        let failed = || GitError::io("there is no place for a file");
        let dir = self.scratch()?;
        let file = dir.path().join("content");
        std::fs::write(&file, content).map_err(failed())?;
        let git = self.git().hide(&file.to_string_lossy());
        let ran = git.args(["hash-object", "-w", "--no-filters", "--"]).arg(&file).run()?.ok()?;
        parse_hash(&ran.text())
    }

    fn git_with_index(&self, index: &TempDir) -> super::process::GitCommand<'_> {
        // Git requires a work tree for removing entries from an index, so pass it an empty directory.
        let git = self.git().arg("--work-tree").arg(index.path());
        let git = git.env("GIT_INDEX_FILE", index.path().join("index"));
        git.hide(&index.path().to_string_lossy())
    }
}

/// The remote that a branch is pushed to.
#[derive(Clone, Copy)]
pub struct GitRemote<'a> {
    pub url: &'a RemoteUrl,
    pub credential: Option<&'a GitCredential>,
    pub access: &'a RepositoryAccess,
}

fn parse_hash(text: &str) -> Result<CommitHash, GitError> {
    CommitHash::parse(text.trim()).ok_or_else(|| GitError::Failed("git did not name what it made".into()))
}
