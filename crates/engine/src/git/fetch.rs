//! Fetches refs into a mirror, within its size limit.

use std::fs::File;
use std::path::Path;

use super::GitError;
use super::branch::GitRemote;
use super::mirror::GitMirror;
use super::partial::{FILTER, REMOTE};
use super::process::{GitOutput, GrowthLimit, directory_size};
use super::remote::configure_access;
use crate::limits::MIRROR_FILES_MAX;

const BRANCHES_AND_TAGS: [&str; 2] = ["+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"];
/// Part of git's warning when the remote is a shallow clone. Git skips its branches but exits with success.
const SHALLOW_WARNING: &str = "shallow roots are not allowed";

/// What `git fetch` does in addition to storing objects and refs.
#[derive(Default)]
pub(super) struct FetchOptions {
    /// Removes refs that the remote no longer has.
    pub(super) prunes: bool,
    /// Stores all objects in one pack instead of separate files, so that they can be removed again.
    pub(super) is_one_pack: bool,
    /// Fetches a commit without its history.
    pub(super) is_shallow: bool,
    /// Fetches these objects instead of refs: one hash per line.
    pub(super) objects: Option<File>,
}

impl GitMirror {
    /// Fetches all branches and tags, and removes those that the remote no longer has. Refs of pull requests stay. The
    /// caller holds the mirror's lock.
    pub(super) fn fetch_branches(&self, from: &GitRemote<'_>) -> Result<(), GitError> {
        let fetched = self.run_fetch(
            from,
            FetchOptions { prunes: true, ..FetchOptions::default() },
            &BRANCHES_AND_TAGS,
        );
        if matches!(fetched, Err(GitError::TooLarge(_))) && self.is_over_limit() {
            // Git may have completed a pack before it was stopped at the limit. No ref uses the pack, and it would keep
            // the mirror above the limit forever.
            self.remove_locked()?;
        }
        fetched?;
        self.pack();
        Ok(())
    }

    /// Runs `git fetch`. Returns `TooLarge` if the mirror is above its size limit afterwards. The caller holds the
    /// mirror's lock.
    pub(super) fn run_fetch(
        &self,
        from: &GitRemote<'_>,
        options: FetchOptions,
        refspecs: &[&str],
    ) -> Result<(), GitError> {
        self.clear_leftovers();
        let growth = GrowthLimit { of: self.path.join("objects"), bytes_max: self.bytes_max };
        let (git, key) = configure_access(self, self.git(), from.url, from.credential, from.access)?;
        let git = git.with_growth_limit(growth);
        let is_partial = self.is_partial();
        let git = match is_partial {
            true => git.arg("-c").arg(format!("remote.{REMOTE}.url={}", from.url)),
            false => git,
        };
        // For single objects there are no common commits to negotiate.
        let git =
            if options.objects.is_none() { git } else { git.args(["-c", "fetch.negotiationAlgorithm=noop"]) };
        let git = if options.is_one_pack { git.args(["-c", "fetch.unpackLimit=1"]) } else { git };
        let git = git.args(["fetch", "--quiet", "--no-tags", "--no-write-fetch-head"]);
        let git = git.args(["--no-auto-maintenance", "--no-recurse-submodules"]);
        let git = git.args(options.prunes.then_some("--prune"));
        let git = git.args(options.is_shallow.then_some("--depth=1"));
        let git = match options.objects {
            Some(objects) => git.arg("--stdin").stdin_file(objects),
            None => git,
        };
        let git = match is_partial {
            true => git.arg(format!("--filter={FILTER}")).args(["--end-of-options", REMOTE]),
            false => git.args(["--end-of-options", from.url.as_str()]),
        };
        let fetched = git.args(refspecs).run();
        drop(key);
        let too_large = || {
            let mebibytes = self.bytes_max / (1024 * 1024);
            GitError::TooLarge(format!("the repository is larger than the limit of {mebibytes} MiB"))
        };
        match fetched {
            Err(GitError::TooLarge(_)) => {
                self.clear_leftovers();
                Err(too_large())
            }
            Err(error) => Err(error),
            Ok(ran) => {
                let ran = ran.ok()?;
                if ran.warnings().contains(SHALLOW_WARNING) {
                    return Err(shallow_error(from));
                }
                if self.is_over_limit() { Err(too_large()) } else { Ok(()) }
            }
        }
    }

    pub(super) fn is_over_limit(&self) -> bool {
        directory_size(&self.path.join("objects")) > self.bytes_max
    }

    /// Combines small packs and loose objects if there are too many. Keeps unreachable objects, and does not rewrite
    /// large packs. If this fails, git is only slower.
    ///
    /// Partial mirrors are not repacked, because old versions of git lose track of which objects the remote has.
    pub(super) fn pack(&self) {
        if self.is_partial() {
            return;
        }
        let packs = std::fs::read_dir(self.path.join("objects/pack")).map_or(0, Iterator::count);
        let loose = std::fs::read_dir(self.path.join("objects/17")).map_or(0, Iterator::count);
        // Loose objects are spread over 256 directories; estimate the total from one of them.
        if packs + loose * 256 / 32 > MIRROR_FILES_MAX {
            let done = self.git().args(["repack", "--geometric=2", "-d", "-q"]).run().and_then(GitOutput::ok);
            if let Err(error) = done {
                tracing::warn!(%error, "repacking a mirror failed; retrying with the next fetch");
            }
        }
    }

    /// Removes lock files and partial packs that a killed git process left behind. The caller holds the mirror's lock,
    /// so no running process uses these files.
    fn clear_leftovers(&self) {
        fn clear(dir: &Path, depth: u32) {
            for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
                let (path, name) = (entry.path(), entry.file_name());
                let name = name.to_string_lossy();
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    if depth > 0 {
                        clear(&path, depth - 1);
                    }
                } else if name.ends_with(".lock") || name.starts_with("tmp_") {
                    let _ = std::fs::remove_file(&path);
                }
            }
        }
        // Lock files of branches can be nested as deeply as a branch name, which has at most 130 levels.
        clear(&self.path, 130);
    }
}

fn shallow_error(from: &GitRemote<'_>) -> GitError {
    let fix = match from.url.local_path() {
        Some(_) => "run `git fetch --unshallow` in it, or register the repository that it was cloned from",
        None => "register the repository that it was cloned from",
    };
    GitError::Refused(format!("the repository is a shallow clone without its complete history; {fix}"))
}
