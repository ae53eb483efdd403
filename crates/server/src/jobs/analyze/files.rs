//! The files of the failing commit, for checking fixes.

use std::cell::Cell;

use berth_analysis::diff::{CommitTree, FILE_BYTES_MAX, FileContent, TreeEntry};
use berth_engine::git::{self, CommitHash, EntryKind, GitMirror};

use crate::limits::FIX_LOOKUPS_MAX;

/// Reads files of a commit. Each lookup runs git, so the number of lookups is limited.
pub(super) struct CommitFiles {
    mirror: GitMirror,
    commit: CommitHash,
    left: Cell<usize>,
}

impl CommitFiles {
    pub(super) fn new(mirror: GitMirror, commit: CommitHash) -> Self {
        Self { mirror, commit, left: Cell::new(FIX_LOOKUPS_MAX) }
    }

    /// Returns the same files with a new lookup limit.
    pub(super) fn with_fresh_limit(&self) -> Self {
        Self::new(self.mirror.clone(), self.commit.clone())
    }

    fn file(&self, found: &git::GitTreeEntry, is_executable: bool) -> Option<TreeEntry> {
        if found.bytes > FILE_BYTES_MAX as u64 {
            return None;
        }
        let content = self.mirror.content(found).ok()?;
        Some(TreeEntry::File(FileContent { content, is_executable }))
    }
}

impl CommitTree for CommitFiles {
    fn entry(&self, path: &str) -> Option<TreeEntry> {
        let left = self.left.get().checked_sub(1)?;
        self.left.set(left);
        let found = self.mirror.entry(&self.commit, path).ok()??;
        match found.kind {
            EntryKind::File => self.file(&found, false),
            EntryKind::Executable => self.file(&found, true),
            EntryKind::Symlink => Some(TreeEntry::Symlink),
            EntryKind::Directory => Some(TreeEntry::Directory),
            EntryKind::Submodule => Some(TreeEntry::Submodule),
        }
    }
}
