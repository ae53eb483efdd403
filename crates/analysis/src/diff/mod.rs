//! Unified diffs in git's format, including file modes: written, parsed and applied in memory.
//!
//! A diff may come from a rule or from a language model. It is parsed strictly, and applied either completely or not at
//! all.

mod apply;
mod parse;
mod policy;
mod quote;
mod write;

pub use apply::{ChangedFile, apply};
pub use policy::{DiffPermit, DiffRejection, RejectionReason};
pub use write::diff;

/// Maximum size of a diff.
pub const DIFF_BYTES_MAX: usize = 256 * 1024;
/// Maximum number of files that one diff may change.
pub const FILES_MAX: usize = 20;
/// Maximum number of removed and added lines together.
pub const CHANGED_LINES_MAX: usize = 400;
/// Maximum size of a changed file, before and after the change.
pub const FILE_BYTES_MAX: usize = 1024 * 1024;
/// Maximum length of a path.
pub const PATH_BYTES_MAX: usize = 512;

/// A file before or after a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileContent {
    pub content: Vec<u8>,
    pub is_executable: bool,
}

/// An entry of a commit's tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TreeEntry {
    File(FileContent),
    Directory,
    Symlink,
    Submodule,
}

/// The tree of one commit. Paths are relative, separated by `/`.
pub trait CommitTree {
    fn entry(&self, path: &str) -> Option<TreeEntry>;
}

impl CommitTree for std::collections::BTreeMap<String, TreeEntry> {
    fn entry(&self, path: &str) -> Option<TreeEntry> {
        let below = format!("{path}/");
        let is_directory = || self.keys().any(|known| known.starts_with(&below));
        self.get(path).cloned().or_else(|| is_directory().then_some(TreeEntry::Directory))
    }
}

impl FileContent {
    pub(crate) const fn mode(&self) -> &'static str {
        if self.is_executable { "100755" } else { "100644" }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        let text = std::str::from_utf8(&self.content).ok()?;
        (!text.contains('\0') && text.len() <= FILE_BYTES_MAX).then_some(text)
    }
}
