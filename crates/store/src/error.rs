//! Errors of the store. A refusal by a domain rule is a value, not an error.

use crate::sql::SqlStatement;

#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// The store is shutting down, overloaded or broken; nothing was written.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// The connection was lost during a commit, which may have succeeded. A retry with the same idempotency key finds out.
    #[error("the outcome of the commit is unknown: {0}")]
    Unknown(String),
    /// The disk failed: acknowledge nothing more, exit, and recover at the next start.
    #[error("the database failed: {0}")]
    Broken(String),
    #[error("the disk that holds the database is full")]
    StorageFull,
    /// PostgreSQL cannot store such text, so it is refused on SQLite too.
    #[error("a text contains the character NUL, which cannot be stored")]
    Nul,
    /// A bug in this program: an unreadable row, a write without an event, a failed version check.
    #[error("store bug: {0}")]
    Bug(String),
}

impl StoreError {
    /// Names the statement whose row could not be read.
    pub(crate) fn in_statement(self, statement: &SqlStatement) -> Self {
        match self {
            StoreError::Bug(text) => StoreError::Bug(format!("{}: {text}", statement.name)),
            other => other,
        }
    }
}

/// Why a store could not be opened. The text is shown to the operator.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("{0}")]
    Refused(String),
    #[error("cannot open the database: {0}")]
    Store(#[from] StoreError),
    #[error("{action} {path}: {source}")]
    Io { action: &'static str, path: String, source: std::io::Error },
}
