//! Interfaces between a running command and its caller.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use crate::stop_signal::StopReason;

/// Maximum interval between two checks of the deadline.
const TICK: Duration = Duration::from_secs(1);

/// The attempt or build that a command belongs to.
pub(crate) trait ExecutionHost {
    fn stop_reason(&self) -> Option<StopReason>;

    /// A descriptor that becomes readable when the process has to stop.
    fn stop_descriptor(&self) -> Option<BorrowedFd<'_>>;

    /// Maximum interval between two checks of [`stop_reason`](Self::stop_reason).
    fn poll_interval(&self) -> Duration {
        TICK
    }

    fn kill_by(&self) -> Option<Instant>;

    /// Time between SIGTERM and SIGKILL.
    fn grace(&self) -> Duration;

    fn memory_bytes_max(&self) -> Option<u64>;

    /// Called before a process is started. If it returns an error, the process is not started.
    fn before_start(&self) -> std::io::Result<()> {
        Ok(())
    }

    /// Called after a process was started.
    fn after_start(&self);

    /// Receives output of the process.
    fn write(&self, bytes: &[u8]);

    /// Receives a line from another source, which must not split a line of the output.
    fn write_aside(&self, line: &[u8]);

    /// Returns false if the writer should wait because the log buffer is full.
    fn has_room(&self) -> bool;

    /// Returns the time until [`tick_log`](Self::tick_log) has to be called next.
    fn log_due_in(&self) -> Option<Duration>;

    fn tick_log(&self);
}

/// Observes something other than the output while a process runs, such as files that it writes.
pub(crate) trait CommandMonitor {
    /// A descriptor that becomes readable when there is something to check.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;

    /// Maximum interval between two checks.
    fn poll_interval(&self) -> Duration;

    /// Checks on the process. Returns true once the process has done its work; the process is then killed if it does
    /// not exit soon.
    fn poll(&mut self, host: &dyn ExecutionHost) -> bool;
}

/// A monitor that observes nothing.
pub(crate) struct NoMonitor;

impl CommandMonitor for NoMonitor {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn poll_interval(&self) -> Duration {
        TICK
    }

    fn poll(&mut self, _: &dyn ExecutionHost) -> bool {
        false
    }
}
