//! Sends heartbeats on a thread of its own.
//!
//! While any attempt is running, there is always one open heartbeat request. Its response names the attempts that have
//! to stop. Each attempt checks for itself whether responses are overdue, using CLOCK_BOOTTIME, which also advances
//! during suspend.

use std::time::{Duration, Instant};

use berth_api::runner::{AttemptInstruction, AttemptOrder, AttemptRef, RunnerHeartbeat};
use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};

use crate::backoff::Backoff;
use crate::runner::RunnerShared;
use crate::stop_signal::StopReason;

/// Minimum duration of the heartbeat's long poll. A heartbeat only covers the attempts that were running when it was
/// sent, so the poll is shorter while attempts start and end frequently.
const WAIT_MIN: Duration = Duration::from_millis(200);
/// Minimum time between two heartbeats if the response contained no order to stop.
const PAUSE_MIN: Duration = Duration::from_millis(20);

/// The last heartbeat that the server responded to: when it was sent, and which attempts' leases it renewed.
#[derive(Default)]
pub(crate) struct HeartbeatState {
    answered: Mutex<AnsweredHeartbeat>,
}

#[derive(Default)]
struct AnsweredHeartbeat {
    sent: Duration,
    named: Vec<String>,
}

impl HeartbeatState {
    pub(crate) fn is_silent_since(&self, nonce: &str, began: Duration, limit: Duration) -> bool {
        let answered = self.answered.lock();
        let is_named = answered.named.iter().any(|named| named == nonce);
        let renewed = if is_named { answered.sent.max(began) } else { began };
        boot_time().saturating_sub(renewed) > limit
    }

    fn record_answer(&self, sent: Duration, attempts: Vec<AttemptRef>) {
        let named = attempts.into_iter().map(|it| it.nonce).collect();
        *self.answered.lock() = AnsweredHeartbeat { sent, named };
    }
}

/// Returns the time since boot, including time in suspend.
pub(crate) fn boot_time() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_nanos(u64::try_from(time.tv_nsec).unwrap_or(0))
}

/// Runs until the runner has shut down and no attempt is running.
pub(crate) fn run(shared: &RunnerShared) {
    let mut backoff = Backoff::new();
    while let Some((attempts, calm)) = shared.wait_for_attempts() {
        let beat = RunnerHeartbeat {
            boot: shared.settings.boot.clone(),
            attempts,
            is_draining: shared.is_draining(),
        };
        let wait = calm.max(WAIT_MIN).min(shared.settings.heartbeat_wait);
        let sent = boot_time();
        let began = Instant::now();
        match shared.link.heartbeat(&beat, wait) {
            Ok(told) => {
                shared.pulse.record_answer(sent, beat.attempts);
                backoff = Backoff::new();
                let obeyed = told.into_iter().filter(|told| apply_order(shared, told)).count();
                let is_news = obeyed > 0;
                if !is_news && began.elapsed() < PAUSE_MIN {
                    std::thread::sleep(PAUSE_MIN);
                } else if is_news {
                    // The stopped attempts take a moment to end, and a heartbeat sent now would only return the same
                    // orders.
                    shared.wait_for_change(WAIT_MIN);
                }
            }
            Err(error) => {
                tracing::warn!(%error, "heartbeat failed; retrying");
                shared.pause(backoff.next());
            }
        }
    }
}

fn apply_order(shared: &RunnerShared, told: &AttemptInstruction) -> bool {
    let why = match told.order {
        AttemptOrder::Continue => return false,
        AttemptOrder::Cancel => StopReason::Cancelled { reason: told.reason.clone() },
        AttemptOrder::Stale => StopReason::Stale,
    };
    shared.stop_attempt(&told.nonce, why);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heartbeat_response_renews_only_its_attempts() {
        let (pulse, now, limit) = (HeartbeatState::default(), boot_time(), Duration::from_secs(20));
        let long_ago = now.saturating_sub(Duration::from_secs(30));
        let attempt = |nonce: &str| AttemptRef {
            organization_id: String::new(),
            deployment_id: String::new(),
            step_id: String::new(),
            number: 1,
            nonce: nonce.into(),
        };
        pulse.record_answer(now, vec![attempt("a")]);
        assert!(!pulse.is_silent_since("a", long_ago, limit));
        assert!(pulse.is_silent_since("b", long_ago, limit), "it was not renewed");
        assert!(!pulse.is_silent_since("b", now, limit));
    }
}
