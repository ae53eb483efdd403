//! Checks out the files of a commit into an empty directory. Only reads the mirror, and never writes outside of the
//! directory.

use std::collections::VecDeque;
use std::path::{Component, Path, PathBuf};

use super::mirror::GitMirror;
use super::tree::EntryKind;
use super::{CommitHash, GitError};
use crate::limits::{CHECKOUT_BYTES_MAX, CHECKOUT_FILES_MAX};

/// Maximum length of a chain of symlinks. A longer chain is treated as a loop, as in the kernel.
const LINKS_FOLLOWED_MAX: usize = 40;
/// Maximum number of symlinks named in an error message.
const NAMED_MAX: usize = 5;

impl GitMirror {
    /// Checks out a commit into `into`, which must be empty. Keeps executable bits, skips submodules, and runs no hooks
    /// or filters. After an error, the directory is empty again.
    pub fn checkout(&self, commit: &CommitHash, into: &Path) -> Result<(), GitError> {
        let failed = || GitError::io("the directory for the checkout cannot be used");
        if std::fs::read_dir(into).map_err(failed())?.next().is_some() {
            return Err(GitError::Refused("the directory for the checkout is not empty".into()));
        }
        let entries = self.entries(commit, None, &["-r"])?;
        let bytes = entries.iter().fold(0u64, |sum, entry| sum.saturating_add(entry.bytes));
        if entries.len() > CHECKOUT_FILES_MAX || bytes > CHECKOUT_BYTES_MAX {
            return Err(GitError::TooLarge(format!(
                "the commit has {} files and {} MiB; at most {CHECKOUT_FILES_MAX} and {} are unpacked",
                entries.len(),
                bytes / (1024 * 1024),
                CHECKOUT_BYTES_MAX / (1024 * 1024),
            )));
        }
        let links: Vec<_> = entries.iter().filter(|entry| entry.kind == EntryKind::Symlink).collect();
        let done = self.unpack(commit, into).and_then(|()| {
            let is_out = |path: &&str| leads_out(into, path);
            let out: Vec<_> = links.iter().map(|entry| entry.path.as_str()).filter(is_out).collect();
            if out.is_empty() {
                return Ok(());
            }
            let named = out[..out.len().min(NAMED_MAX)].join(", ");
            Err(GitError::Refused(format!("symlinks lead out of the repository: {named}")))
        });
        if done.is_err() {
            clear_dir(into);
        }
        done
    }

    fn unpack(&self, commit: &CommitHash, into: &Path) -> Result<(), GitError> {
        // Use a temporary index, because git would otherwise write to the index of the mirror.
        let index = self.scratch()?;
        let git = self.git().arg("--work-tree").arg(into).env("GIT_INDEX_FILE", index.path().join("index"));
        git.hide(&into.to_string_lossy())
            .args(["read-tree", "--reset", "-u", "--no-recurse-submodules", commit.as_str()])
            .run()?
            .ok()
            .map(drop)
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
