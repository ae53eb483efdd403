//! The store's clock: the wall clock, but always later than it was before, and honest about being set.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use berth_core::time::Timestamp;

/// A larger jump of the wall clock against the monotonic one is a clock that was set.
const CLOCK_STEP_S_MAX: i64 = 5;

/// How far the store's time is ahead of the wall clock, in microseconds.
pub(crate) type Ahead = Arc<AtomicI64>;

/// The writer's clock. Readers look at the wall clock, and are as far ahead of it as the writer.
pub(crate) struct Clock {
    last: Timestamp,
    started: Instant,
    /// The two clocks, as they were read last, in microseconds.
    seen: Option<(i64, i64)>,
    /// By how much the wall clock was set back: our time goes on as before, for readers too.
    ahead: Ahead,
    /// By how much it was set forward, and nobody has asked yet.
    stepped: i64,
}

impl Clock {
    pub(crate) fn new(ahead: Ahead) -> Self {
        let last = Timestamp::from_micros(0);
        Self { last, started: Instant::now(), seen: None, ahead, stepped: 0 }
    }

    /// A little later than before: for what is decided within one reading of the clock.
    pub(crate) fn tick(&mut self) -> Timestamp {
        self.last = Timestamp::from_micros(self.last.as_micros() + 1);
        self.last
    }

    fn look(&mut self) -> Timestamp {
        let wall = wall();
        let monotonic = i64::try_from(self.started.elapsed().as_micros()).unwrap_or(i64::MAX);
        self.read(wall, monotonic)
    }

    /// Reads the clock, and tells how far it was set forward in microseconds, if it was. What runs out at a time of day
    /// has to be put off by as much: the time has not passed.
    pub(crate) fn step(&mut self) -> Option<i64> {
        self.look();
        Some(self.stepped).filter(|step| *step > 0)
    }

    /// What runs out was put off, and that is on disk.
    pub(crate) fn stepped(&mut self) {
        self.stepped = 0;
    }

    fn read(&mut self, wall: i64, monotonic: i64) -> Timestamp {
        if let Some((wall_before, monotonic_before)) = self.seen.replace((wall, monotonic)) {
            let jump = (wall - wall_before) - (monotonic - monotonic_before);
            if jump < -CLOCK_STEP_S_MAX * 1_000_000 {
                tracing::error!(
                    seconds = jump / 1_000_000,
                    "the clock was set back; the store's time goes on"
                );
                self.ahead.fetch_sub(jump, Ordering::SeqCst);
            } else if jump > CLOCK_STEP_S_MAX * 1_000_000 {
                // First it comes back to where it was.
                let back = jump.min(self.ahead.load(Ordering::SeqCst));
                self.ahead.fetch_sub(back, Ordering::SeqCst);
                self.stepped += jump - back;
            }
        }
        let now = Timestamp::from_micros(wall.saturating_add(self.ahead.load(Ordering::SeqCst)));
        self.last = now.max(Timestamp::from_micros(self.last.as_micros() + 1));
        self.last
    }
}

/// The store's time, as readers see it.
pub(crate) fn now(ahead: &Ahead) -> Timestamp {
    Timestamp::from_micros(wall().saturating_add(ahead.load(Ordering::SeqCst)))
}

fn wall() -> i64 {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(wall.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;
    const NOON: i64 = 1_763_200_800 * SECOND;

    #[test]
    fn a_clock_that_was_set_is_noticed_and_one_that_drifts_is_followed() {
        let mut clock = Clock::new(Ahead::default());
        let mut at = |wall: i64, monotonic: i64| {
            let now = clock.read(NOON + wall * SECOND, monotonic * SECOND).as_micros() - NOON;
            (now / SECOND, std::mem::take(&mut clock.stepped) / SECOND)
        };
        assert_eq!(at(0, 0), (0, 0));
        assert_eq!(at(60, 60), (60, 0));
        assert_eq!(at(124, 120), (124, 0), "a drift");
        assert_eq!(at(724, 120), (724, 600), "set forward");
        assert_eq!(at(725, 121), (725, 0));
        assert_eq!(at(126, 122), (726, 0), "set back: time goes on");
        assert_eq!(at(127, 123), (727, 0));
        assert_eq!(at(728, 124), (728, 0), "set right again");
        assert_eq!(at(1_328, 124), (1_328, 600), "and forward once more");
    }

    #[test]
    fn a_step_is_told_until_what_it_concerns_is_written() {
        let mut clock = Clock::new(Ahead::default());
        clock.read(NOON, 0);
        clock.read(NOON + 600 * SECOND, 0);
        clock.read(NOON + 601 * SECOND, SECOND);
        assert_eq!(clock.stepped, 600 * SECOND, "a batch that failed forgets nothing");
        clock.stepped();
        assert_eq!(clock.stepped, 0);
    }

    #[test]
    fn time_never_stands_still() {
        let mut clock = Clock::new(Ahead::default());
        let first = clock.read(NOON, 0);
        assert!(clock.read(NOON, 0) > first && clock.read(NOON - SECOND, 1) > first);
    }
}
