//! What a step still prints after somebody has taken its environment over. It is no part of the step's log: that ends with
//! a line that says so, and the rest is kept apart, for whoever wants to know what happened.

use std::collections::HashMap;

use parking_lot::Mutex;

use super::calls::key;
use super::report::{Named, taken_over};
use crate::app::App;
use crate::error::AppError;
use crate::logs::{LogKey, LogStream};

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
    pub(super) fn place(&self, app: &App, it: &Named, offset: u64) -> Result<(LogKey, u64), AppError> {
        let (key, rings) = (key(it), app.engine.bell.rings());
        let known = self.seen.lock().get(&key).copied();
        let end = match known {
            Some(Seen { end: Some(end), .. }) => Some(end),
            // Where others answer takeovers too, the bell rings here only after they have been answered.
            Some(seen) if seen.rings == rings && !app.store.is_shared() => None,
            _ => self.look(app, it, &key, offset)?,
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
    pub(super) fn forget(&self, app: &App, key: &LogKey) {
        let seen = self.seen.lock().remove(key);
        if seen.is_some_and(|seen| seen.end.is_some()) {
            app.logs.seal_later(&LogKey { stream: LogStream::AfterFence, ..*key });
        }
    }

    fn look(&self, app: &App, it: &Named, key: &LogKey, offset: u64) -> Result<Option<u64>, AppError> {
        let (plans, named) = (app.engine.plans().clone(), it.clone());
        let found = app.store.read_blocking(Some(it.org), move |db| taken_over(db, &plans, &named))?;
        let Some(by) = found else { return Ok(None) };
        let line =
            format!("[berth] stopped: {by}; what it still prints is kept apart (stream after_fence)\n");
        // Without this line the log is still what the step printed while it might.
        if let Err(error) = app.logs.append(key, offset, line.as_bytes()) {
            tracing::warn!(%error, deployment = %key.deployment, "a log does not say that it ends here");
        }
        Ok(Some(offset))
    }
}
