//! Callers that were looked up before. What is known of them holds as long as the store's mark of access stays the same.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use berth_core::time::Timestamp;
use berth_store::records::token::TokenCaller;

use crate::limits::{CALLERS_KNOWN_MAX, LAST_USED_EVERY_S};

#[derive(Debug, Default)]
pub(crate) struct Callers(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    mark: u64,
    /// By the hash of the token.
    callers: HashMap<Vec<u8>, TokenCaller>,
}

impl Callers {
    /// Whom this token speaks for, if nothing has changed since `mark` was given for the first time. Not one that has ended
    /// meanwhile, nor one whose last use has to be noted.
    pub(crate) fn find(&self, (mark, now): (u64, Timestamp), hash: &[u8]) -> Option<TokenCaller> {
        let known = self.known();
        let caller = known.callers.get(hash).filter(|_| known.mark == mark)?;
        let is_live = caller.expires_at.is_none_or(|end| end > now);
        let is_noted = caller.last_used_at.is_some_and(|last| now.seconds_since(last) < LAST_USED_EVERY_S);
        (is_live && is_noted).then(|| caller.clone())
    }

    /// `mark` was given before the caller was looked up.
    pub(crate) fn keep(&self, mark: u64, hash: Vec<u8>, caller: TokenCaller) {
        let mut known = self.known();
        if known.mark > mark {
            return;
        }
        if known.mark < mark || known.callers.len() >= CALLERS_KNOWN_MAX {
            known.callers.clear();
        }
        known.mark = mark;
        known.callers.insert(hash, caller);
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
