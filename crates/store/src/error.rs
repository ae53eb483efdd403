//! What can go wrong in the store. A refusal is not here: that is an answer of the rules.

use crate::sql::Statement;

#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// The store is shutting down, overloaded or broken; nothing was written.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// The connection was lost while a commit was under way: it may have happened. A repeat with the same key finds out.
    #[error("it is not known whether it was written: {0}")]
    Unknown(String),
    /// The disk failed under the database: stop acknowledging, end the process, recover at the next start.
    #[error("the database failed: {0}")]
    Broken(String),
    #[error("the disk that holds the database is full")]
    StorageFull,
    /// PostgreSQL keeps no such text. What one database refuses, the other refuses, too.
    #[error("a text holds the character NUL, which cannot be kept")]
    Nul,
    /// A mistake in this program: a row that cannot be read, a change without an event, a lost version check.
    #[error("store bug: {0}")]
    Bug(String),
}

impl StoreError {
    /// Names the statement whose row could not be read.
    pub(crate) fn in_statement(self, statement: &Statement) -> Self {
        match self {
            StoreError::Bug(text) => StoreError::Bug(format!("{}: {text}", statement.name)),
            other => other,
        }
    }
}

/// Why a store could not be opened. The text is shown to the operator as it is.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("{0}")]
    Refused(String),
    #[error("cannot open the database: {0}")]
    Store(#[from] StoreError),
    #[error("{action} {path}: {source}")]
    Io { action: &'static str, path: String, source: std::io::Error },
}
