//! What follows from an attempt to write to a forge.

use berth_core::forge::outbox::{WriteResult, retry_pause_s};

use crate::integrations::forges::ForgeError;

/// How long nothing of the kind is written for a repository after the forge rejected its credential.
const NOT_ALLOWED_PAUSE_S: i64 = 15 * 60;
/// How long to wait if the forge's rate limit was reached and it does not say for how long.
const BUSY_PAUSE_S: i64 = 60;
const NO_CLIENT: &str = "the repository is not on a known forge, or has no token for its API";

/// The result of an attempt.
pub(super) struct WriteOutcome {
    pub(super) result: WriteResult,
    /// For how many seconds nothing of the kind is written for the repository.
    pub(super) pause_s: Option<i64>,
}

impl WriteOutcome {
    /// The repository has no client for its forge.
    pub(super) fn without_client() -> Self {
        Self { result: WriteResult::Impossible { error: NO_CLIENT.to_owned() }, pause_s: None }
    }

    /// `failures` is the number of attempts that failed before this one.
    pub(super) fn new(sent: Result<(), ForgeError>, failures: i64) -> Self {
        let Err(error) = sent else { return Self { result: WriteResult::Written, pause_s: None } };
        let pause_s = match &error {
            ForgeError::NotAllowed => Some(NOT_ALLOWED_PAUSE_S),
            ForgeError::Busy(wait) => {
                let wait = wait.and_then(|wait| i64::try_from(wait.as_secs()).ok());
                Some(wait.unwrap_or(BUSY_PAUSE_S))
            }
            ForgeError::Refused { status: 500.., .. } | ForgeError::Unreachable(_) | ForgeError::Odd => {
                Some(retry_pause_s(failures + 1))
            }
            // Only this commit is affected: the forge may not have it yet, or not any more.
            ForgeError::NotFound | ForgeError::Refused { .. } => None,
        };
        Self::retry(error.to_string(), pause_s)
    }

    /// The credential lacks a permission, which this text names.
    pub(super) fn not_permitted(error: String) -> Self {
        Self::retry(error, Some(NOT_ALLOWED_PAUSE_S))
    }

    fn retry(error: String, pause_s: Option<i64>) -> Self {
        Self { result: WriteResult::Retry { error, wait_s: pause_s.unwrap_or(0) }, pause_s }
    }
}
