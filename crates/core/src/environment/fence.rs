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
/// How far above the day of the calendar an epoch may be that is believed of a runner.
pub const EPOCHS_TOLD_MAX: i64 = 256;
const DAY_S: i64 = 24 * 60 * 60;
const YEAR_2026: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);
const COUNTER_BITS: u32 = 40;

/// The epoch of a database with this one that is older than what really happened. It is above every epoch known to have
/// been given, and not below the days since 2026: what is restored on a later day is above what was restored before,
/// although the same backup says the same epoch each time.
pub fn raised_epoch(epoch: i64, given: Option<i64>, now: Timestamp) -> i64 {
    let known = given.unwrap_or(epoch).max(epoch) + EPOCHS_RAISED;
    known.max(days_of(now))
}

/// What a runner has seen, and its disk did not forget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Witness {
    /// The highest epoch.
    Epoch(i64),
    /// A fence that was given, although nobody here knows: also its own epoch has lost something.
    Fence(Fence),
}

impl Witness {
    pub const fn epoch(self) -> i64 {
        match self {
            Witness::Epoch(epoch) => epoch,
            Witness::Fence(fence) => fence.epoch(),
        }
    }
}

/// What follows from an epoch that a runner has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// Nothing that the installation does not know.
    Known,
    /// The installation has lost it: fences go on in this one, above it.
    Above(i64),
    /// Higher than any that can have been given. `most` would be believed today.
    Absurd { most: i64 },
}

/// Whoever has a runner's credential can say any number, and epochs do not come back: a word from outside must not be
/// able to use them up. Epochs follow the calendar and are given ahead of it only by restores, sixteen at a time. So a
/// runner is believed up to a few restores ahead of today, whatever the own epoch is: however often somebody lies, no
/// more than those are lost, and the calendar makes up for them. What is higher is for people to look at.
pub fn heard_epoch(own: i64, witness: Witness, now: Timestamp) -> Heard {
    let (heard, most) = (witness.epoch(), days_of(now) + EPOCHS_TOLD_MAX);
    match () {
        () if heard < own || witness == Witness::Epoch(own) => Heard::Known,
        () if heard > most || heard >= EPOCH_MAX => Heard::Absurd { most: most.min(EPOCH_MAX - 1) },
        () => Heard::Above(heard + 1),
    }
}

/// Since 2026. A clock that is far ahead must not use all epochs up.
fn days_of(now: Timestamp) -> i64 {
    let days = now.seconds_since(YEAR_2026) / DAY_S;
    if (0..=EPOCH_MAX).contains(&days) { days } else { 0 }
}

/// Zero: nobody has held the environment yet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fence(i64);

impl Fence {
    pub const fn from_number(number: i64) -> Self {
        Self(number)
    }

    /// From somebody who may say anything. `None`: no fence is like that.
    pub const fn given(number: i64) -> Option<Self> {
        if number > 0 && number >> COUNTER_BITS <= EPOCH_MAX { Some(Self(number)) } else { None }
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
    fn a_runner_is_believed_a_little_ahead_of_the_calendar_and_however_often_it_lies() {
        let day = |days: i64| YEAR_2026.plus_seconds(days * DAY_S + 1);
        let heard_epoch = |own, heard, now| heard_epoch(own, Witness::Epoch(heard), now);
        assert_eq!(heard_epoch(3, 3, day(0)), Heard::Known);
        assert_eq!(heard_epoch(3, -1, day(0)), Heard::Known);
        assert_eq!(heard_epoch(3, 4, day(0)), Heard::Above(5));
        // A backup of the first day, put back without a word: what was given since may be as high as the day.
        assert_eq!(heard_epoch(0, 319, day(319)), Heard::Above(320));
        let most = 319 + EPOCHS_TOLD_MAX;
        assert_eq!(heard_epoch(0, most + 1, day(319)), Heard::Absurd { most });
        assert_eq!(heard_epoch(0, i64::MAX, day(319)), Heard::Absurd { most });
        let believed = |own, said| match heard_epoch(own, said, day(319)) {
            Heard::Above(next) => next,
            Heard::Known | Heard::Absurd { .. } => own,
        };
        assert_eq!((0..=EPOCH_MAX).fold(0, believed), most + 1, "all that a liar can reach");
        let far = day(EPOCH_MAX - 1);
        assert_eq!(heard_epoch(0, EPOCH_MAX, far), Heard::Absurd { most: EPOCH_MAX - 1 }, "none is above it");
        assert_eq!(heard_epoch(0, 300, day(EPOCH_MAX + 1)), Heard::Absurd { most: EPOCHS_TOLD_MAX });
    }

    #[test]
    fn a_lost_fence_raises_the_epoch_it_was_given_in_and_once_is_enough() {
        let (now, lost) = (YEAR_2026, Witness::Fence(Fence::from_number(3 << COUNTER_BITS | 9)));
        assert_eq!(heard_epoch(2, lost, now), Heard::Above(4));
        assert_eq!(heard_epoch(3, lost, now), Heard::Above(4));
        assert_eq!(heard_epoch(4, lost, now), Heard::Known);
        assert_eq!(Fence::given(0).or(Fence::given(-1)).or(Fence::given(i64::MAX)), None);
        assert_eq!(Fence::given(1 << 53), None);
        assert!(Fence::given((1 << 53) - 1).is_some_and(|it| it.epoch() == EPOCH_MAX));
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
