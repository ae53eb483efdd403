//! Logs of steps: one append-only file per attempt, readable from any byte or line.
//!
//! While an attempt runs, its log is a plain file, and its length and line index are in memory. After the attempt has
//! ended, the log is sealed: a background job compresses it in blocks and appends the index. The plain file is kept
//! until the sealed file is complete, so a crash at any time leaves a readable log, which is sealed after the next
//! start. At most a few blocks of a log are in memory.
//!
//! With object storage, the plain file is put there in parts while it grows, and the sealed file replaces the parts.
//! Other servers follow the log by reading its parts. The local files are then only a buffer and a cache.

mod files;
mod group;
mod index;
mod log_objects;
mod object_exchange;
mod open_log;
mod reader;
mod retention;
mod seal_queue;
mod sealed_log;
mod search;
mod store;
#[cfg(test)]
mod tests;
mod watch;

pub use reader::whole_chars;

pub use group::{GroupState, LineGroup};
pub use open_log::LogProgress;
pub use reader::{LogLine, LogLines, LogReader};
pub use retention::ReplaceReport;
pub use sealed_log::LogSeal;
pub use search::{LogMatches, LogQuery};
pub use store::LogStore;
pub use watch::LogWatch;

use std::io;

use berth_core::id::{DeploymentId, OrgId, StepRunId};

use berth_store::StoreError;

use crate::admission::AdmissionCapacity;
use crate::object_storage::StorageError;

/// Maximum number of bytes in one append.
pub const LOG_CHUNK_BYTES_MAX: usize = 64 * 1024;
/// Maximum size of a log. Runners stop at 1 GiB; the remaining 1 MiB leaves room for the line that reports the
/// truncation.
pub const LOG_BYTES_MAX: u64 = 1024 * 1024 * 1024 + 1024 * 1024;
/// Maximum number of lines in a response.
pub const LOG_LINES_MAX: usize = 5_000;
/// Maximum amount of text in a response, in bytes. The first line is always included.
pub const LOG_ANSWER_BYTES_MAX: usize = 1024 * 1024;
/// Maximum number of bytes of a single line in a response. The rest of the line is cut off.
pub const LOG_LINE_SHOWN_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of bytes scanned by one search. The client continues with another search.
pub const LOG_SCAN_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Maximum number of lines returned by one search.
pub const LOG_MATCHES_MAX: usize = 1_000;
/// Maximum number of logs in the table of open logs. A log keeps a file open while it is written or followed. Writers
/// are admitted even if the table is full.
pub const LOGS_OPEN_MAX: AdmissionCapacity = AdmissionCapacity { total: 512, share: 256 };

/// Identifies a log: an attempt of a step, and a stream. Log file paths consist of these ids only.
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
    /// Output of the step up to the end of the attempt or to a takeover of its environment.
    #[default]
    Step,
    /// Output of the step after its environment was taken over.
    AfterFence,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppendResult {
    /// The bytes are in the log, which now has this length. Bytes that an earlier call already appended are not
    /// duplicated.
    Written { length: u64 },
    /// Nothing was appended, because preceding bytes are missing. The client has to resend from `length`.
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
    #[error("the log has {length} of its {reported} bytes in object storage; another server has the rest")]
    Incomplete { length: u64, reported: u64 },
    #[error("a log cannot be read or written: {0}")]
    Storage(#[from] StorageError),
}

impl From<StoreError> for LogError {
    fn from(error: StoreError) -> Self {
        LogError::Storage(error.into())
    }
}

impl From<io::Error> for LogError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => LogError::Full,
            _ => LogError::Io(error),
        }
    }
}
