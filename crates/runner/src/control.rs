//! How one attempt is told to stop.
//!
//! Whoever tells it (a heartbeat's answer, a log's answer, the end of the runner) only writes down why; the thread that
//! runs the attempt sees it at once, because it waits on the same descriptor as on everything else.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Why {
    Cancelled {
        reason: Option<String>,
    },
    /// The attempt is over for the server; nothing is said about it any more.
    Stale,
    /// The runner ends.
    Shutdown,
    /// The server has not answered for too long.
    Silence,
}

pub(crate) struct Control {
    told: Mutex<Told>,
    wake: OwnedFd,
}

#[derive(Default)]
struct Told {
    why: Option<Why>,
    is_stale: bool,
    /// Earlier than the usual grace, when the runner ends meanwhile.
    kill_by: Option<Instant>,
}

impl Control {
    pub(crate) fn new() -> std::io::Result<Self> {
        let wake = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { told: Mutex::default(), wake })
    }

    /// The first reason stays; a later one can only add to it.
    pub(crate) fn stop(&self, why: Why, kill_by: Option<Instant>) {
        let mut told = self.told.lock();
        told.is_stale |= why == Why::Stale;
        told.kill_by = match (told.kill_by, kill_by) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        match (&mut told.why, why) {
            (slot @ None, why) => *slot = Some(why),
            (Some(Why::Cancelled { reason: slot @ None }), Why::Cancelled { reason }) => *slot = reason,
            _ => {}
        }
        drop(told);
        // Never read, so it stays readable: being told is for ever. It can only fail when it is readable already.
        rustix::io::write(&self.wake, &1_u64.to_ne_bytes()).ok();
    }

    pub(crate) fn asked(&self) -> Option<Why> {
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

    /// Waits until it is told to stop, at most for `limit`.
    pub(crate) fn wait(&self, limit: Duration) -> Option<Why> {
        let mut fds = [PollFd::from_borrowed_fd(self.wake(), PollFlags::IN)];
        // An interrupted wait is a shorter one, which every caller is prepared for.
        rustix::event::poll(&mut fds, Some(&timespec(limit))).ok();
        self.asked()
    }
}

pub(crate) fn timespec(length: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(length.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(length.subsec_nanos()),
    }
}

impl Why {
    /// For the last line of the log.
    pub(crate) fn text(&self) -> String {
        match self {
            Why::Cancelled { reason: Some(reason) } => reason.clone(),
            Why::Cancelled { reason: None } => "cancelled".into(),
            Why::Stale => "the server has given this attempt up".into(),
            Why::Shutdown => "the runner ends".into(),
            Why::Silence => "the server did not answer for too long".into(),
        }
    }
}
