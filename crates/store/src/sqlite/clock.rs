//! The store's clock: wall-clock time that always increases. Detects when the system clock is set forward or back.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use berth_core::time::Timestamp;

/// If the wall clock and the monotonic clock differ by more than this between two readings, the wall clock was
/// set.
const CLOCK_STEP_S_MAX: i64 = 5;

/// Number of microseconds by which the store's time is ahead of the wall clock.
pub(crate) type ClockOffset = Arc<AtomicI64>;

/// The writer's clock. Readers use the wall clock plus [`ClockOffset`].
pub(crate) struct StoreClock {
    last: Timestamp,
    started: Instant,
    /// The last readings of the wall clock and the monotonic clock, in microseconds.
    seen: Option<(i64, i64)>,
    /// How far the wall clock was set back. Writer and readers add it to the wall clock, so that the store's time does
    /// not go back.
    ahead: ClockOffset,
    /// How far the wall clock was set forward since deadlines were last postponed, in microseconds.
    stepped: i64,
}

impl StoreClock {
    pub(crate) fn new(ahead: ClockOffset) -> Self {
        let last = Timestamp::from_micros(0);
        Self { last, started: Instant::now(), seen: None, ahead, stepped: 0 }
    }

    /// Advances the time by one microsecond, so that each job of a batch has its own time.
    pub(crate) fn tick(&mut self) -> Timestamp {
        self.last = Timestamp::from_micros(self.last.as_micros() + 1);
        self.last
    }

    fn read_clocks(&mut self) -> Timestamp {
        let wall = wall_micros();
        let monotonic = i64::try_from(self.started.elapsed().as_micros()).unwrap_or(i64::MAX);
        self.read(wall, monotonic)
    }

    /// Reads the clock. If it was set forward, returns by how many microseconds. All deadlines must then be postponed
    /// by the same amount, because that time has not really passed.
    pub(crate) fn read_step(&mut self) -> Option<i64> {
        self.read_clocks();
        Some(self.stepped).filter(|step| *step > 0)
    }

    /// Called when the postponed deadlines have been committed.
    pub(crate) fn clear_step(&mut self) {
        self.stepped = 0;
    }

    fn read(&mut self, wall: i64, monotonic: i64) -> Timestamp {
        if let Some((wall_before, monotonic_before)) = self.seen.replace((wall, monotonic)) {
            let jump = (wall - wall_before) - (monotonic - monotonic_before);
            if jump < -CLOCK_STEP_S_MAX * 1_000_000 {
                tracing::error!(seconds = jump / 1_000_000, "clock stepped back; store time continues");
                self.ahead.fetch_sub(jump, Ordering::SeqCst);
            } else if jump > CLOCK_STEP_S_MAX * 1_000_000 {
                // A step forward first cancels out an earlier step back.
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
pub(crate) fn now(ahead: &ClockOffset) -> Timestamp {
    Timestamp::from_micros(wall_micros().saturating_add(ahead.load(Ordering::SeqCst)))
}

fn wall_micros() -> i64 {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(wall.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;
    const NOON: i64 = 1_763_200_800 * SECOND;

    #[test]
    fn clock_detects_steps_and_follows_drift() {
        let mut clock = StoreClock::new(ClockOffset::default());
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
    fn clock_step_is_reported_until_deadlines_are_committed() {
        let mut clock = StoreClock::new(ClockOffset::default());
        clock.read(NOON, 0);
        clock.read(NOON + 600 * SECOND, 0);
        clock.read(NOON + 601 * SECOND, SECOND);
        assert_eq!(clock.stepped, 600 * SECOND, "a failed batch does not clear it");
        clock.clear_step();
        assert_eq!(clock.stepped, 0);
    }

    #[test]
    fn clock_is_strictly_monotonic() {
        let mut clock = StoreClock::new(ClockOffset::default());
        let first = clock.read(NOON, 0);
        assert!(clock.read(NOON, 0) > first && clock.read(NOON - SECOND, 1) > first);
    }
}
