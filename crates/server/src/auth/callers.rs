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

#[cfg(test)]
mod tests {
    use berth_core::access::Role;
    use berth_core::id::{OrgId, TokenId, UserId};
    use berth_core::name::{DisplayName, Slug};

    use super::*;

    const SECOND: i64 = 1_000_000;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * SECOND)
    }

    fn caller(expires_at: Option<Timestamp>) -> TokenCaller {
        TokenCaller {
            token: TokenId::from_parts(at(1), [1; 10]),
            org: OrgId::from_parts(at(1), [2; 10]),
            org_slug: Slug::parse("acme").unwrap(),
            user: UserId::from_parts(at(1), [3; 10]),
            user_name: DisplayName::parse("Ada").unwrap(),
            is_service: false,
            role: Role::Owner,
            last_used_at: Some(at(100)),
            expires_at,
        }
    }

    #[test]
    fn a_caller_is_known_until_something_changes_the_token_ends_or_its_use_is_to_be_noted() {
        let callers = Callers::default();
        callers.keep(4, vec![1], caller(None));
        callers.keep(4, vec![2], caller(Some(at(110))));
        let knows = |mark, now, hash: u8| callers.find((mark, at(now)), &[hash]).is_some();
        assert!(knows(4, 109, 1) && knows(4, 109, 2) && !knows(4, 109, 3));
        assert!(knows(4, 110, 1) && !knows(4, 110, 2), "it has ended");
        assert!(knows(4, 159, 1) && !knows(4, 160, 1), "its use is noted once a minute");
        assert!(!knows(6, 109, 1), "something has changed");
    }

    #[test]
    fn what_was_looked_up_before_a_change_is_not_kept_after_it() {
        let callers = Callers::default();
        callers.keep(6, vec![1], caller(None));
        callers.keep(4, vec![2], caller(None));
        assert!(callers.find((6, at(101)), &[1]).is_some());
        assert!(callers.find((6, at(101)), &[2]).is_none() && callers.find((4, at(101)), &[2]).is_none());
        callers.keep(8, vec![2], caller(None));
        assert!(callers.find((8, at(101)), &[1]).is_none() && callers.find((8, at(101)), &[2]).is_some());
    }

    #[test]
    fn so_many_callers_are_known_and_no_more() {
        let callers = Callers::default();
        for number in 0..=CALLERS_KNOWN_MAX {
            callers.keep(0, number.to_be_bytes().to_vec(), caller(None));
        }
        assert_eq!(callers.known().callers.len(), 1);
    }
}
