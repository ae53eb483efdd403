//! What a step still prints after somebody has taken its environment over. It is no part of the step's log: that ends with
//! a line that says so, and the rest is kept apart, for whoever wants to know what happened.

use std::collections::HashMap;

use parking_lot::Mutex;

use super::calls::key;
use super::report::{Named, taken_over};
use crate::error::EngineError;
use crate::logs::{LogKey, LogStream};
use crate::services::Services;

/// Logs that are known; beyond it those that nobody has taken over are looked at again.
const SEEN_MAX: usize = 4_096;

#[derive(Default)]
pub(super) struct Late {
    /// Of logs that grow; forgotten with the end of their attempt.
    seen: Mutex<HashMap<LogKey, Seen>>,
}

#[derive(Clone, Copy)]
struct Seen {
    /// How often the bell had rung at the last look: every takeover rings it before it is answered.
    rings: u64,
    /// Where the step's own part ends, once it has.
    end: Option<u64>,
}

impl Late {
    /// Where bytes belong that a runner has for `offset`.
    pub(super) fn place(
        &self,
        services: &Services,
        it: &Named,
        offset: u64,
    ) -> Result<(LogKey, u64), EngineError> {
        let (key, rings) = (key(it), services.engine.bell.rings());
        let known = self.seen.lock().get(&key).copied();
        let end = match known {
            Some(Seen { end: Some(end), .. }) => Some(end),
            // Where others answer takeovers too, the bell rings here only after they have been answered.
            Some(seen) if seen.rings == rings && !services.store.is_shared() => None,
            _ => self.look(services, it, &key, offset)?,
        };
        let mut seen = self.seen.lock();
        if seen.len() >= SEEN_MAX {
            seen.retain(|_, it| it.end.is_some());
        }
        seen.insert(key, Seen { rings, end });
        drop(seen);
        Ok(match end {
            Some(end) => (LogKey { stream: LogStream::AfterFence, ..key }, offset.saturating_sub(end)),
            None => (key, offset),
        })
    }

    /// The attempt has ended.
    pub(super) fn forget(&self, services: &Services, key: &LogKey) {
        let seen = self.seen.lock().remove(key);
        if seen.is_some_and(|seen| seen.end.is_some()) {
            services.logs.seal_later(&LogKey { stream: LogStream::AfterFence, ..*key });
        }
    }

    fn look(
        &self,
        services: &Services,
        it: &Named,
        key: &LogKey,
        offset: u64,
    ) -> Result<Option<u64>, EngineError> {
        let (plans, named) = (services.engine.plans().clone(), it.clone());
        let found = services.store.read_blocking(Some(it.org), move |db| taken_over(db, &plans, &named))?;
        let Some(by) = found else { return Ok(None) };
        let line =
            format!("[berth] stopped: {by}; what it still prints is kept apart (stream after_fence)\n");
        // Without this line the log is still what the step printed while it might.
        if let Err(error) = services.logs.append(key, offset, line.as_bytes()) {
            tracing::warn!(%error, deployment = %key.deployment, "a log does not say that it ends here");
        }
        Ok(Some(offset))
    }
}
