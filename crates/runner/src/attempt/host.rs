//! Implements [`ProcessHost`] for an attempt.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use super::Attempt;
use crate::control::Why;
use crate::process::Host;

impl Host for Attempt<'_> {
    fn asked(&self) -> Option<Why> {
        Attempt::asked(self)
    }

    fn wake(&self) -> Option<BorrowedFd<'_>> {
        Some(self.control.wake())
    }

    fn kill_by(&self) -> Option<Instant> {
        self.control.kill_by()
    }

    fn grace(&self) -> Duration {
        match Attempt::asked(self) {
            Some(Why::Shutdown) => self.settings().shutdown_grace,
            _ => self.settings().stop_grace,
        }
    }

    fn memory_bytes_max(&self) -> Option<u64> {
        self.settings().step_memory_bytes_max
    }

    fn begins(&self) -> std::io::Result<()> {
        Attempt::begins(self)
    }

    fn begun(&self) {
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

    fn due_in(&self) -> Option<Duration> {
        self.log.due_in()
    }

    fn see_to_log(&self) {
        self.log.tick();
    }
}
