//! When something that a forge should show is written to it.
//!
//! The version rises with every change; the forge has the present state if that version was written. So only the newest
//! state is written, however often it changed.

use crate::time::Timestamp;

/// How long a write is retried before Berth gives up.
pub const GIVE_UP_AFTER_S: i64 = 24 * 3_600;
/// Pause after the first failure; it doubles with each further one.
pub const RETRY_S_MIN: i64 = 2;
pub const RETRY_S_MAX: i64 = 600;
/// Maximum length of an error that is stored.
const ERROR_CHARS_MAX: usize = 500;

/// How far a record was written to the forge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForgeWrite {
    /// Rises with every change of the record.
    pub version: i64,
    /// The last version that was written to the forge; 0 if there is none.
    pub written_version: i64,
    /// When the record last changed.
    pub wanted_at: Timestamp,
    /// Consecutive failed attempts to write it.
    pub failures: i64,
    /// Why the last attempt failed. A change of the record keeps it, because nothing may be written for a while.
    pub error: Option<String>,
    /// When to write it. `None` if it was written, or Berth has given up.
    pub due_at: Option<Timestamp>,
}

/// The result of an attempt to write a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteResult {
    Written,
    /// Failed; try again, at the earliest after this number of seconds.
    Retry {
        error: String,
        wait_s: i64,
    },
    /// The repository is not on a known forge any more, or has no token.
    Impossible {
        error: String,
    },
}

impl ForgeWrite {
    /// Returns the state after a change of the record, which is due now.
    pub fn after_change(current: Option<&Self>, now: Timestamp) -> Self {
        Self {
            version: current.map_or(0, |it| it.version) + 1,
            written_version: current.map_or(0, |it| it.written_version),
            wanted_at: now,
            failures: 0,
            error: current.and_then(|it| it.error.clone()),
            due_at: Some(now),
        }
    }

    /// Returns the state after an attempt to write the version `sent`, which may be older than the present one.
    #[must_use]
    pub fn after_attempt(self, sent: i64, result: &WriteResult, now: Timestamp) -> Self {
        let shorten = |error: &str| Some(error.chars().take(ERROR_CHARS_MAX).collect());
        match result {
            WriteResult::Written => {
                let due_at = self.due_at.filter(|_| self.version != sent);
                Self { written_version: sent, failures: 0, error: None, due_at, ..self }
            }
            WriteResult::Impossible { error } => Self { error: shorten(error), due_at: None, ..self },
            WriteResult::Retry { error, wait_s } => {
                let failures = self.failures + 1;
                let is_over = now.seconds_since(self.wanted_at) >= GIVE_UP_AFTER_S;
                let due_at = (!is_over).then(|| now.plus_seconds((*wait_s).max(retry_pause_s(failures))));
                Self { failures, error: shorten(error), due_at, ..self }
            }
        }
    }
}

/// The pause after this number of consecutive failures, in seconds.
pub fn retry_pause_s(failures: i64) -> i64 {
    let doublings = u32::try_from(failures - 1).unwrap_or(0).min(16);
    RETRY_S_MIN.saturating_mul(1 << doublings).min(RETRY_S_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn change_during_a_write_is_written_next() {
        let first = ForgeWrite::after_change(None, at(10));
        assert_eq!((first.version, first.written_version, first.due_at), (1, 0, Some(at(10))));
        let second = ForgeWrite::after_change(Some(&first), at(11));
        let after = second.after_attempt(1, &WriteResult::Written, at(12));
        assert_eq!((after.written_version, after.due_at), (1, Some(at(11))), "the newer state is due");
        let done = after.after_attempt(2, &WriteResult::Written, at(13));
        assert_eq!((done.written_version, done.due_at), (2, None));
    }

    #[test]
    fn failed_write_is_retried_with_backoff_until_it_is_given_up() {
        let failed = |wait_s| WriteResult::Retry { error: "e".repeat(1_000), wait_s };
        let mut write = ForgeWrite::after_change(None, at(0));
        for pause in [2, 4, 8, 16] {
            write = write.after_attempt(1, &failed(0), at(100));
            assert_eq!(write.due_at, Some(at(100 + pause)));
        }
        write = write.after_attempt(1, &failed(90), at(100));
        assert_eq!(write.due_at, Some(at(190)), "the forge's wait is longer");
        assert_eq!(write.error.as_ref().map(String::len), Some(ERROR_CHARS_MAX));
        assert_eq!(retry_pause_s(1_000), RETRY_S_MAX);
        let over = write.after_attempt(1, &failed(0), at(GIVE_UP_AFTER_S));
        assert!(over.due_at.is_none() && over.error.is_some());
        let again = ForgeWrite::after_change(Some(&over), at(GIVE_UP_AFTER_S + 1));
        assert!(again.due_at.is_some(), "the next state is tried again");
        assert_eq!(again.error, over.error, "known until the next attempt");
    }
}
