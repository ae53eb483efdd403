//! Provides the files of a commit as the base that diffs are applied to.

use std::cell::RefCell;

use berth_analysis::diff::{CommitTree, FILE_BYTES_MAX, FileContent, TreeEntry};

use super::mirror::GitMirror;
use super::tree::EntryKind;
use super::{CommitHash, GitError};

/// The methods of [`CommitTree`] cannot return errors. If git fails, the file appears to be missing, and
/// [`CommitFiles::finish`] returns the error.
pub struct CommitFiles<'a> {
    mirror: &'a GitMirror,
    commit: &'a CommitHash,
    failed: RefCell<Option<GitError>>,
}

impl<'a> CommitFiles<'a> {
    pub fn new(mirror: &'a GitMirror, commit: &'a CommitHash) -> Self {
        Self { mirror, commit, failed: RefCell::new(None) }
    }

    /// Returns the first error that a lookup encountered.
    pub fn finish(self) -> Result<(), GitError> {
        self.failed.into_inner().map_or(Ok(()), Err)
    }

    fn find(&self, path: &str) -> Result<Option<TreeEntry>, GitError> {
        let found = self.mirror.entries(self.commit, Some(path), &[])?;
        let Some(entry) = found.into_iter().find(|entry| entry.path == path) else { return Ok(None) };
        let is_executable = match entry.kind {
            EntryKind::Directory => return Ok(Some(TreeEntry::Directory)),
            EntryKind::Symlink => return Ok(Some(TreeEntry::Symlink)),
            EntryKind::Submodule => return Ok(Some(TreeEntry::Submodule)),
            EntryKind::File => false,
            EntryKind::Executable => true,
        };
        let content = self.mirror.read(self.commit, path, FILE_BYTES_MAX as u64)?.unwrap_or_default();
        Ok(Some(TreeEntry::File(FileContent { content, is_executable })))
    }
}

impl CommitTree for CommitFiles<'_> {
    fn entry(&self, path: &str) -> Option<TreeEntry> {
        self.find(path).unwrap_or_else(|error| {
            self.failed.borrow_mut().get_or_insert(error);
            None
        })
    }
}
