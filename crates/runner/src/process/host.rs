//! Interfaces between a running process and its caller.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use super::TICK;
use crate::control::Why;

/// The attempt or build that a process runs for.
pub(crate) trait Host {
    fn asked(&self) -> Option<Why>;

    /// A descriptor that becomes readable when the process has to stop.
    fn wake(&self) -> Option<BorrowedFd<'_>>;

    /// How often to check [`stop_reason`](Self::stop_reason), at least.
    fn tick(&self) -> Duration {
        TICK
    }

    fn kill_by(&self) -> Option<Instant>;

    /// Time between SIGTERM and SIGKILL.
    fn grace(&self) -> Duration;

    fn memory_bytes_max(&self) -> Option<u64>;

    /// Called before a process is started; an error prevents the start.
    fn begins(&self) -> std::io::Result<()> {
        Ok(())
    }

    /// Called after a process was started.
    fn begun(&self);

    /// Receives output of the process.
    fn write(&self, bytes: &[u8]);

    /// Receives a line from another source, to be written between lines of the output.
    fn write_aside(&self, line: &[u8]);

    /// Returns false while the writer should wait.
    fn has_room(&self) -> bool;

    /// When [`tick_log`](Self::tick_log) has to be called next.
    fn due_in(&self) -> Option<Duration>;

    fn see_to_log(&self);
}

/// Observes something besides the output while a process runs.
pub(crate) trait Beside {
    /// A descriptor that becomes readable when there is something to check.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;

    /// The longest time between two checks.
    fn tick(&self) -> Duration;

    /// Returns true once the process has done its work; it is killed if it does not exit soon.
    fn look(&mut self, host: &dyn Host) -> bool;
}

/// Observes nothing.
pub(crate) struct Nothing;

impl Beside for Nothing {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn tick(&self) -> Duration {
        TICK
    }

    fn look(&mut self, _: &dyn Host) -> bool {
        false
    }
}
