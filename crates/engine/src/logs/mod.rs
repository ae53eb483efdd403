//! What steps print: one append-only file for each attempt, readable from any byte and any line.
//!
//! While an attempt runs, its log is a plain file; length and line index are in memory. When it has ended the log is
//! sealed: compressed in blocks, with its index behind them. No step waits for that. Until the sealed form is in place
//! the plain file stays, so a crash at any moment leaves one that can be read, and the next start seals it. Nothing ever holds more than a few blocks of a log in memory.

mod ended;
mod group;
mod index;
mod open;
mod read;
mod replace;
mod sealed;
mod search;
mod store;
#[cfg(test)]
mod tests;

pub use read::whole_chars;

pub use group::{Group, GroupState};
pub use open::News;
pub use read::{Line, Lines, Log};
pub use replace::Replaced;
pub use sealed::Sealed;
pub use search::{Found, Query};
pub use store::{LogStore, Watch};

use std::io;

use berth_core::id::{DeploymentId, OrgId, StepRunId};

use crate::admission::Capacity;

/// One append.
pub const LOG_CHUNK_BYTES_MAX: usize = 64 * 1024;
/// A whole log. Runners stop before, at 1 GiB; this leaves them room to say so.
pub const LOG_BYTES_MAX: u64 = 1024 * 1024 * 1024 + 1024 * 1024;
/// Lines in one answer.
pub const LOG_LINES_MAX: usize = 5_000;
/// Text in one answer; the first line is always in it.
pub const LOG_ANSWER_BYTES_MAX: usize = 1024 * 1024;
/// What is shown of one line.
pub const LOG_LINE_SHOWN_BYTES_MAX: usize = 64 * 1024;
/// Looked at by one search; another goes on from there.
pub const LOG_SCAN_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Lines found by one search.
pub const LOG_MATCHES_MAX: usize = 1_000;
/// Logs with a place in memory; those that are written or followed have a file open. Writers always find one.
pub const LOGS_OPEN_MAX: Capacity = Capacity { total: 512, share: 256 };

/// One attempt of one step. Paths are made of these ids and of nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LogKey {
    pub org: OrgId,
    pub deployment: DeploymentId,
    pub step: StepRunId,
    pub attempt: u32,
    pub stream: LogStream,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum LogStream {
    /// What it printed while it might.
    #[default]
    Step,
    /// What it still printed after somebody had taken its environment over.
    AfterFence,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Appended {
    /// The log now has this length; bytes that were there already are not there twice.
    Written { length: u64 },
    /// Bytes before these are missing: send again from `length` on.
    Gap { length: u64 },
}

#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error("the disk is full")]
    Full,
    #[error("the disk failed: the log ends at byte {length}")]
    Damaged { length: u64 },
    #[error("the log is closed at byte {length}")]
    Sealed { length: u64 },
    #[error("the log is longer than {LOG_BYTES_MAX} bytes")]
    TooLong,
    #[error("more than {LOG_CHUNK_BYTES_MAX} bytes at once")]
    ChunkTooLarge,
    #[error("too many logs are open")]
    Busy,
    #[error("the log is not what was written: {0}")]
    Corrupt(&'static str),
    #[error("a log cannot be read or written: {0}")]
    Io(io::Error),
}

impl From<io::Error> for LogError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => LogError::Full,
            _ => LogError::Io(error),
        }
    }
}
