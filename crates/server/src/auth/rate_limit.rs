//! Request rate limits per caller. Each server counts on its own.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

use crate::limits::{STRANGERS_PER_ADDRESS_BURST, STRANGERS_PER_ADDRESS_PER_S};

pub struct RateLimits {
    enabled: bool,
    callers: DefaultKeyedRateLimiter<String>,
    strangers: DefaultKeyedRateLimiter<IpAddr>,
    denials: DefaultKeyedRateLimiter<String>,
}

impl RateLimits {
    /// `limit` is the number of requests per second and the burst size; `None` means unlimited.
    pub fn new(limit: Option<(u32, u32)>) -> Self {
        let (per_second, burst) = limit.unwrap_or((u32::MAX, u32::MAX));
        Self {
            enabled: limit.is_some(),
            callers: RateLimiter::keyed(quota(per_second, burst)),
            strangers: RateLimiter::keyed(quota(STRANGERS_PER_ADDRESS_PER_S, STRANGERS_PER_ADDRESS_BURST)),
            denials: RateLimiter::keyed(quota(1, 1)),
        }
    }

    /// Checks the limit of an authenticated caller. `Err` contains the time to wait.
    pub fn check_caller(&self, key: &str) -> Result<(), Duration> {
        self.check(&self.callers, &key.to_owned())
    }

    /// Like [`Self::check_caller`], per IP address, for requests with missing or invalid credentials.
    pub fn check_stranger(&self, address: IpAddr) -> Result<(), Duration> {
        self.check(&self.strangers, &address)
    }

    pub fn is_first_denial(&self, user: &str) -> bool {
        self.denials.check_key(&user.to_owned()).is_ok()
    }

    /// Evicts the counters of idle callers.
    pub fn evict_idle(&self) {
        self.callers.retain_recent();
        self.strangers.retain_recent();
        self.denials.retain_recent();
    }

    fn check<K: std::hash::Hash + Eq + Clone>(
        &self,
        limiter: &DefaultKeyedRateLimiter<K>,
        key: &K,
    ) -> Result<(), Duration> {
        if !self.enabled {
            return Ok(());
        }
        limiter.check_key(key).map_err(|denied| denied.wait_time_from(DefaultClock::default().now()))
    }
}

fn quota(per_second: u32, burst: u32) -> Quota {
    let at_least_one = |n| NonZeroU32::new(n).unwrap_or(NonZeroU32::MIN);
    Quota::per_second(at_least_one(per_second)).allow_burst(at_least_one(burst))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_limit_after_burst_delays_only_that_caller() {
        let rates = RateLimits::new(Some((1, 5)));
        assert_eq!((0..6).filter(|_| rates.check_caller("a").is_ok()).count(), 5);
        assert!(rates.check_caller("a").is_err_and(|wait| wait <= Duration::from_secs(1)));
        assert!(rates.check_caller("b").is_ok());
        let unlimited = RateLimits::new(None);
        assert!((0..100).all(|_| unlimited.check_caller("a").is_ok()));
    }
}
