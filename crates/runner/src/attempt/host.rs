//! Implements [`ExecutionHost`] for an attempt.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use super::RunningAttempt;
use crate::executor::ExecutionHost;
use crate::stop_signal::StopReason;

impl ExecutionHost for RunningAttempt<'_> {
    fn stop_reason(&self) -> Option<StopReason> {
        RunningAttempt::stop_reason(self)
    }

    fn stop_descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.control.wake())
    }

    fn kill_by(&self) -> Option<Instant> {
        self.control.kill_by()
    }

    fn grace(&self) -> Duration {
        match RunningAttempt::stop_reason(self) {
            Some(StopReason::Shutdown) => self.settings().shutdown_grace,
            _ => self.settings().stop_grace,
        }
    }

    fn memory_bytes_max(&self) -> Option<u64> {
        self.settings().step_memory_bytes_max
    }

    fn before_start(&self) -> std::io::Result<()> {
        RunningAttempt::record_start(self)
    }

    fn after_start(&self) {
        self.has_run.set(true);
    }

    fn write(&self, bytes: &[u8]) {
        self.log.write(bytes);
    }

    fn write_aside(&self, line: &[u8]) {
        self.log.write_aside(line);
    }

    fn has_room(&self) -> bool {
        self.log.has_room()
    }

    fn log_due_in(&self) -> Option<Duration> {
        self.log.due_in()
    }

    fn tick_log(&self) {
        self.log.tick();
    }
}
