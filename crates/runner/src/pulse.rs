//! Signs of life, on a thread that does nothing else.
//!
//! One heartbeat is always outstanding while anything runs; its answer names the attempts that have to stop. When no
//! answer comes for too long, each attempt sees that by itself, on the clock that goes on while the machine sleeps.

use std::time::{Duration, Instant};

use berth_api::runner::{AttemptRef, Heartbeat, Order, Told};
use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};

use crate::backoff::Backoff;
use crate::control::Why;
use crate::runner::Shared;

/// A heartbeat names only the attempts that were running when it was sent, so it waits less while they change often.
const WAIT_MIN: Duration = Duration::from_millis(200);
/// An answer that came sooner and says nothing is no reason to ask again at once.
const PAUSE_MIN: Duration = Duration::from_millis(20);

/// When the last heartbeat was sent that was answered, on the clock of [`boot_time`], and which attempts it named. For
/// any other the server has renewed nothing.
#[derive(Default)]
pub(crate) struct Pulse {
    answered: Mutex<Answered>,
}

#[derive(Default)]
struct Answered {
    sent: Duration,
    named: Vec<String>,
}

impl Pulse {
    pub(crate) fn is_silent_since(&self, nonce: &str, began: Duration, limit: Duration) -> bool {
        let answered = self.answered.lock();
        let is_named = answered.named.iter().any(|named| named == nonce);
        let renewed = if is_named { answered.sent.max(began) } else { began };
        boot_time().saturating_sub(renewed) > limit
    }

    fn note(&self, sent: Duration, attempts: Vec<AttemptRef>) {
        let named = attempts.into_iter().map(|it| it.nonce).collect();
        *self.answered.lock() = Answered { sent, named };
    }
}

/// Time since the machine was started, sleep included.
pub(crate) fn boot_time() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_nanos(u64::try_from(time.tv_nsec).unwrap_or(0))
}

/// Until the runner ends and nothing runs any more.
pub(crate) fn run(shared: &Shared) {
    let mut backoff = Backoff::new();
    while let Some((attempts, calm)) = shared.wait_for_attempts() {
        let beat =
            Heartbeat { boot: shared.settings.boot.clone(), attempts, is_draining: shared.is_draining() };
        let wait = calm.max(WAIT_MIN).min(shared.settings.heartbeat_wait);
        let sent = boot_time();
        let began = Instant::now();
        match shared.link.heartbeat(&beat, wait) {
            Ok(told) => {
                shared.pulse.note(sent, beat.attempts);
                backoff = Backoff::new();
                let obeyed = told.into_iter().filter(|told| obey(shared, told)).count();
                let is_news = obeyed > 0;
                if !is_news && began.elapsed() < PAUSE_MIN {
                    std::thread::sleep(PAUSE_MIN);
                } else if is_news {
                    // The attempts told are ending; the answer would be the same at once.
                    shared.wait_for_change(WAIT_MIN);
                }
            }
            Err(error) => {
                tracing::warn!("no answer to a heartbeat: {error}");
                shared.pause(backoff.next());
            }
        }
    }
}

fn obey(shared: &Shared, told: &Told) -> bool {
    let why = match told.order {
        Order::Continue => return false,
        Order::Cancel => Why::Cancelled { reason: told.reason.clone() },
        Order::Stale => Why::Stale,
    };
    shared.stop_attempt(&told.nonce, why);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_counts_for_the_attempts_it_was_asked_for() {
        let (pulse, now, limit) = (Pulse::default(), boot_time(), Duration::from_secs(20));
        let long_ago = now.saturating_sub(Duration::from_secs(30));
        let attempt = |nonce: &str| AttemptRef {
            organization_id: String::new(),
            deployment_id: String::new(),
            step_id: String::new(),
            number: 1,
            nonce: nonce.into(),
        };
        pulse.note(now, vec![attempt("a")]);
        assert!(!pulse.is_silent_since("a", long_ago, limit));
        assert!(pulse.is_silent_since("b", long_ago, limit), "nobody has renewed it");
        assert!(!pulse.is_silent_since("b", now, limit));
    }
}
