//! The fence: one number that rises at every change of holder and never falls.
//!
//! `epoch << 40 | counter`. The counter is the environment's; the epoch is the installation's and rises when counters
//! may have been lost, as after a restore. Together they stay below 2^53, so that every JSON client can hold them.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

pub const EPOCH_MAX: i64 = 8_191;
/// By how much it rises at least when counters may have been lost.
pub const EPOCHS_RAISED: i64 = 16;
const DAY_S: i64 = 24 * 60 * 60;
const YEAR_2026: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);
const COUNTER_BITS: u32 = 40;

/// The epoch of a database with this one that is older than what really happened. It is above every epoch known to have
/// been given, and not below the days since 2026: what is restored on a later day is above what was restored before,
/// although the same backup says the same epoch each time.
pub fn raised_epoch(epoch: i64, given: Option<i64>, now: Timestamp) -> i64 {
    let known = given.unwrap_or(epoch).max(epoch) + EPOCHS_RAISED;
    let days = now.seconds_since(YEAR_2026) / DAY_S;
    // A clock that is far ahead must not use all of them up.
    if days <= EPOCH_MAX { known.max(days) } else { known }
}

/// Zero: nobody has held the environment yet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fence(i64);

impl Fence {
    pub const fn from_number(number: i64) -> Self {
        Self(number)
    }

    pub const fn number(self) -> i64 {
        self.0
    }

    pub const fn counter(self) -> i64 {
        self.0 & ((1 << COUNTER_BITS) - 1)
    }

    pub const fn epoch(self) -> i64 {
        self.0 >> COUNTER_BITS
    }

    /// The number of the next holder. An installation never goes back to an earlier epoch.
    #[must_use]
    pub fn next(self, epoch: i64) -> Self {
        assert!((0..=EPOCH_MAX).contains(&epoch), "epoch {epoch} is out of range");
        assert!(self.counter() < (1 << COUNTER_BITS) - 1, "the fence's counter is used up");
        Self(self.epoch().max(epoch) << COUNTER_BITS | (self.counter() + 1))
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_is_raised_above_all_that_is_known_and_with_the_days() {
        let day = |days: i64| YEAR_2026.plus_seconds(days * DAY_S + 1);
        assert_eq!(raised_epoch(3, None, day(0)), 19);
        assert_eq!(raised_epoch(3, Some(40), day(0)), 56);
        assert_eq!(raised_epoch(40, Some(3), day(0)), 56);
        assert_eq!((raised_epoch(0, None, day(318)), raised_epoch(0, None, day(319))), (318, 319));
        assert_eq!(raised_epoch(0, None, day(EPOCH_MAX + 1)), 16, "a clock that was never set right");
        assert_eq!(raised_epoch(0, None, Timestamp::from_micros(0)), 16);
    }

    #[test]
    fn a_fence_rises_with_every_holder_and_every_epoch() {
        let first = Fence::default().next(0);
        assert_eq!(first.number(), 1);
        let restored = first.next(16);
        assert!(restored > first.next(0).next(0));
        assert_eq!((restored.epoch(), restored.counter()), (16, 2));
        assert_eq!(restored.next(0).epoch(), 16);
        assert!(Fence::default().next(EPOCH_MAX).number() < 1 << 53);
    }
}
