//! The fencing token: a number that increases with every change of holder and never decreases.
//!
//! Layout: `epoch << 40 | counter`. Each environment has its own counter. The epoch belongs to the installation and is
//! raised when counters may have been lost, for example after a restore. The combined number stays below 2^53, so that
//! JSON clients can represent it exactly.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

pub const EPOCH_MAX: i64 = 8_191;
/// The minimum by which the epoch is raised when counters may have been lost.
pub const EPOCHS_RAISED: i64 = 16;
/// How far an epoch reported by a runner may be ahead of the number of days since 2026.
pub const EPOCHS_AHEAD_MAX: i64 = 256;
const DAY_S: i64 = 24 * 60 * 60;
const YEAR_2026: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);
const COUNTER_BITS: u32 = 40;

/// The epoch to use after a restore: higher than every epoch known to have been used, and at least the number of days
/// since 2026. So restoring the same backup on a later day gives a higher epoch.
pub fn next_epoch(epoch: i64, given: Option<i64>, now: Timestamp) -> i64 {
    let known = given.unwrap_or(epoch).max(epoch) + EPOCHS_RAISED;
    known.max(days_since_2026(now))
}

/// Evidence from a runner's disk of a fence or epoch that the server may have lost: a restore of the database does not
/// reset the runner's disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EpochEvidence {
    /// The highest epoch that the runner has seen.
    Epoch(i64),
    /// A fence that was issued but is missing from the database, which means that counters of the fence's epoch are
    /// lost.
    Fence(Fence),
}

impl EpochEvidence {
    pub const fn epoch(self) -> i64 {
        match self {
            EpochEvidence::Epoch(epoch) => epoch,
            EpochEvidence::Fence(fence) => fence.epoch(),
        }
    }
}

/// What follows from a runner's evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EvidenceVerdict {
    /// The server already knows this; nothing changes.
    Known,
    /// The server has lost this fence or epoch: from now on, fences are issued in the given higher epoch.
    Above(i64),
    /// Implausible: higher than any epoch that can have been issued. `most` is the highest plausible epoch today.
    Absurd { most: i64 },
}

/// Judges a runner's evidence. A client with a runner's credential can report any number, and epochs are never reused,
/// so false reports must not be able to use up all epochs. Epochs follow the calendar, one per day; only restores move
/// them ahead of it, by at least 16 each. A report is therefore accepted if it is at most `EPOCHS_AHEAD_MAX` ahead of
/// today. False reports can waste at most those epochs, and the calendar catches up with them. A higher value is
/// rejected, and a person has to investigate.
pub fn judge_evidence(own: i64, witness: EpochEvidence, now: Timestamp) -> EvidenceVerdict {
    let (heard, most) = (witness.epoch(), days_since_2026(now) + EPOCHS_AHEAD_MAX);
    match () {
        () if heard < own || witness == EpochEvidence::Epoch(own) => EvidenceVerdict::Known,
        () if heard > most || heard >= EPOCH_MAX => EvidenceVerdict::Absurd { most: most.min(EPOCH_MAX - 1) },
        () => EvidenceVerdict::Above(heard + 1),
    }
}

/// Days since 2026; zero if the clock is obviously wrong, so that a wrong clock cannot use up the epochs.
fn days_since_2026(now: Timestamp) -> i64 {
    let days = now.seconds_since(YEAR_2026) / DAY_S;
    if (0..=EPOCH_MAX).contains(&days) { days } else { 0 }
}

/// A fencing token. Zero means that the environment was never claimed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fence(i64);

impl Fence {
    pub const fn from_number(number: i64) -> Self {
        Self(number)
    }

    /// Converts a number from an untrusted source; `None` if it cannot be a fence.
    pub const fn from_untrusted(number: i64) -> Option<Self> {
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

    /// The fence of the next holder. Its epoch is never lower than the current one.
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
    fn next_epoch_exceeds_known_epochs_and_follows_calendar() {
        let day = |days: i64| YEAR_2026.plus_seconds(days * DAY_S + 1);
        assert_eq!(next_epoch(3, None, day(0)), 19);
        assert_eq!(next_epoch(3, Some(40), day(0)), 56);
        assert_eq!(next_epoch(40, Some(3), day(0)), 56);
        assert_eq!((next_epoch(0, None, day(318)), next_epoch(0, None, day(319))), (318, 319));
        assert_eq!(next_epoch(0, None, day(EPOCH_MAX + 1)), 16, "a clock that was never set right");
        assert_eq!(next_epoch(0, None, Timestamp::from_micros(0)), 16);
    }

    #[test]
    fn judge_evidence_accepts_epochs_up_to_limit_ahead_of_calendar() {
        let day = |days: i64| YEAR_2026.plus_seconds(days * DAY_S + 1);
        let heard_epoch = |own, heard, now| judge_evidence(own, EpochEvidence::Epoch(heard), now);
        assert_eq!(heard_epoch(3, 3, day(0)), EvidenceVerdict::Known);
        assert_eq!(heard_epoch(3, -1, day(0)), EvidenceVerdict::Known);
        assert_eq!(heard_epoch(3, 4, day(0)), EvidenceVerdict::Above(5));
        // A backup from the first day was restored without raising the epoch; fences issued since then may have any
        // epoch up to today's.
        assert_eq!(heard_epoch(0, 319, day(319)), EvidenceVerdict::Above(320));
        let most = 319 + EPOCHS_AHEAD_MAX;
        assert_eq!(heard_epoch(0, most + 1, day(319)), EvidenceVerdict::Absurd { most });
        assert_eq!(heard_epoch(0, i64::MAX, day(319)), EvidenceVerdict::Absurd { most });
        let believed = |own, said| match heard_epoch(own, said, day(319)) {
            EvidenceVerdict::Above(next) => next,
            EvidenceVerdict::Known | EvidenceVerdict::Absurd { .. } => own,
        };
        assert_eq!((0..=EPOCH_MAX).fold(0, believed), most + 1, "all that a liar can reach");
        let far = day(EPOCH_MAX - 1);
        assert_eq!(
            heard_epoch(0, EPOCH_MAX, far),
            EvidenceVerdict::Absurd { most: EPOCH_MAX - 1 },
            "none is above it"
        );
        assert_eq!(
            heard_epoch(0, 300, day(EPOCH_MAX + 1)),
            EvidenceVerdict::Absurd { most: EPOCHS_AHEAD_MAX }
        );
    }

    #[test]
    fn lost_fence_raises_epoch_only_once() {
        let (now, lost) = (YEAR_2026, EpochEvidence::Fence(Fence::from_number(3 << COUNTER_BITS | 9)));
        assert_eq!(judge_evidence(2, lost, now), EvidenceVerdict::Above(4));
        assert_eq!(judge_evidence(3, lost, now), EvidenceVerdict::Above(4));
        assert_eq!(judge_evidence(4, lost, now), EvidenceVerdict::Known);
        assert_eq!(
            Fence::from_untrusted(0).or(Fence::from_untrusted(-1)).or(Fence::from_untrusted(i64::MAX)),
            None
        );
        assert_eq!(Fence::from_untrusted(1 << 53), None);
        assert!(Fence::from_untrusted((1 << 53) - 1).is_some_and(|it| it.epoch() == EPOCH_MAX));
    }

    #[test]
    fn fence_increases_with_every_holder_and_epoch() {
        let first = Fence::default().next(0);
        assert_eq!(first.number(), 1);
        let restored = first.next(16);
        assert!(restored > first.next(0).next(0));
        assert_eq!((restored.epoch(), restored.counter()), (16, 2));
        assert_eq!(restored.next(0).epoch(), 16);
        assert!(Fence::default().next(EPOCH_MAX).number() < 1 << 53);
    }
}
