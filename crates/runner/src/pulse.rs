//! Signs of life, on a thread that does nothing else.
//!
//! One heartbeat is always outstanding while anything runs; its answer names the attempts that have to stop. When no
//! answer comes for too long, each attempt sees that by itself, on the clock that goes on while the machine sleeps.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use berth_api::runner::{Heartbeat, Order, Told};
use rustix::time::{ClockId, clock_gettime};

use crate::backoff::Backoff;
use crate::control::Why;
use crate::runner::Shared;

/// A heartbeat names only the attempts that were running when it was sent, so it waits less while they change often.
const WAIT_MIN: Duration = Duration::from_millis(200);
/// An answer that came sooner and says nothing is no reason to ask again at once.
const PAUSE_MIN: Duration = Duration::from_millis(20);

pub(crate) struct Pulse {
    /// When the last heartbeat was sent that was answered, in milliseconds of [`boot_time`].
    answered_ms: AtomicU64,
}

impl Pulse {
    pub(crate) fn new() -> Self {
        Self { answered_ms: AtomicU64::new(0) }
    }

    pub(crate) fn is_silent_since(&self, began: Duration, limit: Duration) -> bool {
        let answered = Duration::from_millis(self.answered_ms.load(Ordering::Relaxed));
        boot_time().saturating_sub(answered.max(began)) > limit
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
                let sent_ms = u64::try_from(sent.as_millis()).unwrap_or(u64::MAX);
                shared.pulse.answered_ms.store(sent_ms, Ordering::Relaxed);
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
