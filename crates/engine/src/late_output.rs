//! Handles output that a step prints after its environment was taken over. The step's log ends with a line that reports
//! the takeover; later output goes to a separate log for troubleshooting.

use std::collections::HashMap;

use parking_lot::Mutex;

use super::report::{AttemptLocator, takeover_reason};
use super::runner_calls::log_key;
use crate::error::EngineError;
use crate::logs::{LogKey, LogStream};
use crate::services::Services;

/// Maximum number of cache entries. At this limit, entries of attempts whose environment was not taken over are
/// evicted.
const SEEN_MAX: usize = 4_096;

#[derive(Default)]
pub(super) struct LateOutput {
    /// One entry per growing log. It is removed when the attempt ends.
    seen: Mutex<HashMap<LogKey, TakeoverCheck>>,
}

#[derive(Clone, Copy)]
struct TakeoverCheck {
    /// The notifier's count at the last check. Every takeover sends a notification before its client gets a response,
    /// so while the count is unchanged, no takeover has happened on this server.
    rings: u64,
    /// Length of the step's own log at the takeover. `None` if the environment was not taken over.
    end: Option<u64>,
}

impl LateOutput {
    /// Maps the runner's log offset to a log and an offset in that log. After a takeover, this is the separate log.
    pub(super) fn log_position(
        &self,
        services: &Services,
        it: &AttemptLocator,
        offset: u64,
    ) -> Result<(LogKey, u64), EngineError> {
        let (key, rings) = (log_key(it), services.engine.notifier.count());
        let known = self.seen.lock().get(&key).copied();
        let end = match known {
            Some(TakeoverCheck { end: Some(end), .. }) => Some(end),
            // The cached check is only valid if this is the only server: a takeover through another server may be
            // complete before that server's notification arrives here.
            Some(seen) if seen.rings == rings && !services.store.is_shared() => None,
            _ => self.check_takeover(services, it, &key, offset)?,
        };
        let mut seen = self.seen.lock();
        if seen.len() >= SEEN_MAX {
            seen.retain(|_, it| it.end.is_some());
        }
        seen.insert(key, TakeoverCheck { rings, end });
        drop(seen);
        Ok(match end {
            Some(end) => (LogKey { stream: LogStream::AfterFence, ..key }, offset.saturating_sub(end)),
            None => (key, offset),
        })
    }

    /// Removes the entry of an ended attempt, and seals the separate log if there is one.
    pub(super) fn remove_log(&self, services: &Services, key: &LogKey) {
        let seen = self.seen.lock().remove(key);
        if seen.is_some_and(|seen| seen.end.is_some()) {
            services.logs.seal_later(&LogKey { stream: LogStream::AfterFence, ..*key });
        }
    }

    fn check_takeover(
        &self,
        services: &Services,
        it: &AttemptLocator,
        key: &LogKey,
        offset: u64,
    ) -> Result<Option<u64>, EngineError> {
        let (plans, named) = (services.engine.run_cache().clone(), it.clone());
        let found =
            services.store.read_blocking(Some(it.org), move |db| takeover_reason(db, &plans, &named))?;
        let Some(by) = found else { return Ok(None) };
        let line = format!("[berth] stopped: {by}; later output is in the after_fence log\n");
        // This line is only informational. Without it, the step's log still ends at the takeover.
        if let Err(error) = services.logs.append(key, offset, line.as_bytes()) {
            tracing::warn!(%error, deployment = %key.deployment, "writing the takeover line to a log failed");
        }
        Ok(Some(offset))
    }
}
