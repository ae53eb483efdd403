//! Logs of steps: one append-only file per attempt, readable from any byte or line.
//!
//! While an attempt runs, its log is a plain file; its length and line index are in memory. After the end of the
//! attempt the log is sealed: compressed in blocks, followed by the index. Steps do not wait for that. The plain file
//! stays until the sealed one is complete, so a crash at any time leaves a readable log, which is sealed after the next
//! start. At most a few blocks of a log are in memory.

mod group;
mod index;
mod open_log;
mod reader;
mod retention;
mod seal_queue;
mod sealed_log;
mod search;
mod store;
#[cfg(test)]
mod tests;

pub use reader::whole_chars;

pub use group::{GroupState, LineGroup};
pub use open_log::LogProgress;
pub use reader::{LogLine, LogLines, LogReader};
pub use retention::ReplaceReport;
pub use sealed_log::LogSeal;
pub use search::{LogMatches, LogQuery};
pub use store::{LogStore, LogWatch};

use std::io;

use berth_core::id::{DeploymentId, OrgId, StepRunId};

use crate::admission::AdmissionCapacity;

/// Limit for one append.
pub const LOG_CHUNK_BYTES_MAX: usize = 64 * 1024;
/// Limit for a log. Runners stop at 1 GiB; the rest leaves them room to report that.
pub const LOG_BYTES_MAX: u64 = 1024 * 1024 * 1024 + 1024 * 1024;
/// Lines per response.
pub const LOG_LINES_MAX: usize = 5_000;
/// Text per response. The first line is always included.
pub const LOG_ANSWER_BYTES_MAX: usize = 1024 * 1024;
/// Bytes returned of one line.
pub const LOG_LINE_SHOWN_BYTES_MAX: usize = 64 * 1024;
/// Bytes scanned by one search; the client continues with another search.
pub const LOG_SCAN_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Lines returned by one search.
pub const LOG_MATCHES_MAX: usize = 1_000;
/// Logs in the table. Logs that are written or followed have an open file. Writers are admitted beyond the limit.
pub const LOGS_OPEN_MAX: AdmissionCapacity = AdmissionCapacity { total: 512, share: 256 };

/// Identifies a log: an attempt of a step and a stream. File paths consist of these ids only.
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
    /// Output while the attempt was allowed to run.
    #[default]
    Step,
    /// Output after the environment was taken over.
    AfterFence,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppendResult {
    /// The log has this length now. Bytes that were appended before are not duplicated.
    Written { length: u64 },
    /// Preceding bytes are missing; the client has to resend from `length`.
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
