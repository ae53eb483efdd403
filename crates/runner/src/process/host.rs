//! What a process is run with: whom it is run for, and what is looked at beside it.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use super::TICK;
use crate::control::Why;

/// Who a process is run for.
pub(crate) trait Host {
    fn asked(&self) -> Option<Why>;

    /// Readable from the moment it is told to stop.
    fn wake(&self) -> Option<BorrowedFd<'_>>;

    /// The longest wait without a look whether it is told to stop.
    fn tick(&self) -> Duration {
        TICK
    }

    fn kill_by(&self) -> Option<Instant>;

    /// From TERM to KILL.
    fn grace(&self) -> Duration;

    fn memory_bytes_max(&self) -> Option<u64>;

    /// A process is about to be started; after an error none is.
    fn begins(&self) -> std::io::Result<()> {
        Ok(())
    }

    /// A process was started.
    fn begun(&self);

    /// Output, as it came.
    fn write(&self, bytes: &[u8]);

    /// A line from elsewhere, between the output.
    fn write_aside(&self, line: &[u8]);

    /// False: whoever writes should wait.
    fn has_room(&self) -> bool;

    /// When something has to be done about the log.
    fn due_in(&self) -> Option<Duration>;

    fn see_to_log(&self);
}

/// What is looked at beside a process while it runs.
pub(crate) trait Beside {
    /// Readable when there is something to see.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;

    /// The longest wait without a look.
    fn tick(&self) -> Duration;

    /// True: the process has done its work, and is ended if it does not end soon by itself.
    fn look(&mut self, host: &dyn Host) -> bool;
}

/// The process alone.
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
