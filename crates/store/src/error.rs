//! Errors of the store. If a domain rule refuses a request, that is a normal result and not an error.

use crate::sql::SqlStatement;

#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// The store is shutting down, overloaded or temporarily not working. Nothing was written.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// The connection was lost during a commit, so the commit may or may not have succeeded. The client can retry with
    /// the same idempotency key to find out.
    #[error("the outcome of the commit is unknown: {0}")]
    Unknown(String),
    /// The disk failed. The process must not report success for anything any more, and must exit. The next start
    /// recovers.
    #[error("the database failed: {0}")]
    Broken(String),
    /// A newer server has changed the schema in a way that this program does not know. Nothing was written. The process
    /// must exit.
    #[error("{0}")]
    Outdated(String),
    #[error("the disk that holds the database is full")]
    StorageFull,
    /// The text contains a NUL character. PostgreSQL cannot store it, so it is refused on SQLite as well.
    #[error("a text contains the character NUL, which cannot be stored")]
    Nul,
    /// A bug in Berth, for example an unreadable row, a write without an event or a failed version check.
    #[error("store bug: {0}")]
    Bug(String),
}

impl StoreError {
    /// Adds the name of the statement whose row could not be read.
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
