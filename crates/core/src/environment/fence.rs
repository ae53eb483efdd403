//! The fence: one number that rises at every change of holder and never falls.
//!
//! `epoch << 40 | counter`. The counter is the environment's; the epoch is the installation's and rises when counters
//! may have been lost, as after a restore. Together they stay below 2^53, so that every JSON client can hold them.

use std::fmt;

use serde::{Deserialize, Serialize};

pub const EPOCH_MAX: i64 = 8_191;
const COUNTER_BITS: u32 = 40;

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
