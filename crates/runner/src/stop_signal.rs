//! The signal that tells one attempt to stop.
//!
//! The heartbeat, the log sender and the runner's shutdown record the reason why an attempt has to stop. The attempt's
//! thread notices immediately, because its poll(2) includes the signal's eventfd.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StopReason {
    Cancelled {
        reason: Option<String>,
    },
    /// The server no longer knows the attempt, so the runner does not report its outcome.
    Stale,
    /// The runner is shutting down.
    Shutdown,
    /// The server has not responded to heartbeats for longer than the self-stop limit.
    Silence,
}

pub(crate) struct StopSignal {
    told: Mutex<StopState>,
    wake: OwnedFd,
}

#[derive(Default)]
struct StopState {
    why: Option<StopReason>,
    is_stale: bool,
    /// When to kill the processes, if that is before the end of the normal grace period. Set on shutdown.
    kill_by: Option<Instant>,
}

impl StopSignal {
    pub(crate) fn new() -> std::io::Result<Self> {
        let wake = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { told: Mutex::default(), wake })
    }

    /// Records a reason to stop. The first reason wins; a later one can only add details to it.
    pub(crate) fn stop(&self, why: StopReason, kill_by: Option<Instant>) {
        let mut told = self.told.lock();
        told.is_stale |= why == StopReason::Stale;
        told.kill_by = match (told.kill_by, kill_by) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        match (&mut told.why, why) {
            (slot @ None, why) => *slot = Some(why),
            (Some(StopReason::Cancelled { reason: slot @ None }), StopReason::Cancelled { reason }) => {
                *slot = reason;
            }
            _ => {}
        }
        drop(told);
        // The eventfd is never read, so it stays readable. The write can only fail if it is readable already.
        rustix::io::write(&self.wake, &1_u64.to_ne_bytes()).ok();
    }

    pub(crate) fn reason(&self) -> Option<StopReason> {
        self.told.lock().why.clone()
    }

    pub(crate) fn is_stale(&self) -> bool {
        self.told.lock().is_stale
    }

    pub(crate) fn kill_by(&self) -> Option<Instant> {
        self.told.lock().kill_by
    }

    pub(crate) fn wake(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Waits up to `limit` for a reason to stop.
    pub(crate) fn wait(&self, limit: Duration) -> Option<StopReason> {
        let mut fds = [PollFd::from_borrowed_fd(self.wake(), PollFlags::IN)];
        // EINTR only shortens the wait, which every caller can handle.
        rustix::event::poll(&mut fds, Some(&timespec(limit))).ok();
        self.reason()
    }
}

pub(crate) fn timespec(length: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(length.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(length.subsec_nanos()),
    }
}

impl StopReason {
    /// Returns the text for the last line of the log.
    pub(crate) fn to_log_text(&self) -> String {
        match self {
            StopReason::Cancelled { reason: Some(reason) } => reason.clone(),
            StopReason::Cancelled { reason: None } => "cancelled".into(),
            StopReason::Stale => "the server no longer expects this attempt".into(),
            StopReason::Shutdown => "the runner is shutting down".into(),
            StopReason::Silence => "the server did not answer for too long".into(),
        }
    }
}
