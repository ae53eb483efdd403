//! Cache of callers by token. The store's access generation changes whenever permissions change; an entry is valid
//! until then.

use berth_core::time::Timestamp;
use berth_store::tables::provider_identity::AccountStanding;
use berth_store::tables::token::TokenCaller;
use quick_cache::sync::Cache;

use crate::limits::{CALLERS_KNOWN_MAX, LAST_USED_EVERY_S};

/// Maps the hash of a token to its caller and the access generation at the time of the lookup.
#[derive(Debug)]
pub(crate) struct CallerCache(Cache<Vec<u8>, (u64, TokenCaller)>);

impl Default for CallerCache {
    fn default() -> Self {
        Self(Cache::new(CALLERS_KNOWN_MAX))
    }
}

impl CallerCache {
    /// Returns the caller of this token if the access generation is still `mark`. Returns `None` for expired tokens,
    /// for tokens whose last-used time must be updated, and if the owner's identity provider has not confirmed the
    /// account recently.
    pub(crate) fn find(&self, (mark, now): (u64, Timestamp), hash: &[u8]) -> Option<TokenCaller> {
        let (_, caller) = self.0.get(hash).filter(|(known, _)| *known == mark)?;
        let is_live = caller.expires_at.is_none_or(|end| end > now);
        let is_noted = caller.last_used_at.is_some_and(|last| now.seconds_since(last) < LAST_USED_EVERY_S);
        let is_vouched_for = match caller.standing {
            AccountStanding::Local => true,
            AccountStanding::Verified { until } => now < until,
            AccountStanding::Unverified { .. } | AccountStanding::Suspended { .. } => false,
        };
        (is_live && is_noted && is_vouched_for).then_some(caller)
    }

    /// `mark` is the access generation read before the token was looked up.
    pub(crate) fn insert(&self, mark: u64, hash: Vec<u8>, caller: TokenCaller) {
        self.0.insert(hash, (mark, caller));
    }
}

#[cfg(test)]
mod tests {
    use berth_core::access::{EffectiveAccess, Role};
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
            is_agent: false,
            access: EffectiveAccess::of_role(Role::Owner),
            last_used_at: Some(at(100)),
            expires_at,
            environment: None,
            standing: AccountStanding::Local,
        }
    }

    #[test]
    fn caller_confirmed_by_provider_is_cached_until_the_confirmation_expires() {
        let callers = CallerCache::default();
        let standing = AccountStanding::Verified { until: at(105) };
        callers.insert(4, vec![1], TokenCaller { standing, ..caller(None) });
        let suspended = AccountStanding::Suspended { provider: "corp".into() };
        callers.insert(4, vec![2], TokenCaller { standing: suspended, ..caller(None) });
        let knows = |now, hash: u8| callers.find((4, at(now)), &[hash]).is_some();
        assert!(knows(104, 1) && !knows(105, 1) && !knows(104, 2));
    }

    #[test]
    fn cached_caller_is_invalid_after_access_change_expiry_or_due_use_update() {
        let callers = CallerCache::default();
        callers.insert(4, vec![1], caller(None));
        callers.insert(4, vec![2], caller(Some(at(110))));
        let knows = |mark, now, hash: u8| callers.find((mark, at(now)), &[hash]).is_some();
        assert!(knows(4, 109, 1) && knows(4, 109, 2) && !knows(4, 109, 3));
        assert!(knows(4, 110, 1) && !knows(4, 110, 2), "it has ended");
        assert!(knows(4, 159, 1) && !knows(4, 160, 1), "its use is noted once a minute");
        assert!(!knows(6, 109, 1), "something has changed");
    }

    #[test]
    fn caller_cached_in_earlier_generation_is_not_found() {
        let callers = CallerCache::default();
        callers.insert(6, vec![1], caller(None));
        callers.insert(4, vec![2], caller(None));
        assert!(callers.find((6, at(101)), &[1]).is_some() && callers.find((6, at(101)), &[2]).is_none());
        callers.insert(8, vec![2], caller(None));
        assert!(callers.find((8, at(101)), &[1]).is_none() && callers.find((8, at(101)), &[2]).is_some());
    }

    #[test]
    fn caller_cache_above_capacity_evicts_entries() {
        let callers = CallerCache::default();
        for number in 0..2 * CALLERS_KNOWN_MAX {
            callers.insert(0, number.to_be_bytes().to_vec(), caller(None));
        }
        assert!((1..=CALLERS_KNOWN_MAX).contains(&callers.0.len()), "{}", callers.0.len());
    }
}
