//! Watches a running command: forwards its output, enforces the deadline, and stops it in stages.
//!
//! A single thread polls the output, the descriptor that signals the exit, the stop descriptor and the monitor. The run
//! ends when the main process exits. Processes that it left in the background are then killed.

use std::io::{PipeReader, Read};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use super::{CommandExit, CommandMonitor, ExecutionHost, HaltReason, RunningCommand};
use crate::stop_signal::timespec;

const READ_BYTES: usize = 64 * 1024;
/// Interval between two checks whether a stopped step still has processes.
const STOP_TICK: Duration = Duration::from_millis(20);
/// Interval between two checks for room in a full log buffer.
const FULL_TICK: Duration = Duration::from_millis(5);
/// Limits for reading the rest of the pipe after a step, in time and size. Normally no process has the pipe open any
/// more, but a daemon that was not found could write to it forever.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(1);
const DRAIN_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Interval between two calls of [`RunningCommand::tick`].
const UPKEEP_INTERVAL: Duration = Duration::from_secs(10);
/// How long a process that has done its work may take to exit.
const EXIT_GRACE: Duration = Duration::from_secs(2);

pub(super) struct CommandWatch<'a> {
    pub(super) host: &'a dyn ExecutionHost,
    pub(super) command: Box<dyn RunningCommand + 'a>,
    /// Set to `None` once all writers have closed the pipe.
    reader: Option<PipeReader>,
    buffer: Vec<u8>,
    monitor: &'a mut dyn CommandMonitor,
    /// When to kill the process, once it has done its work.
    exit_by: Option<Instant>,
}

impl<'a> CommandWatch<'a> {
    pub(super) fn new(
        host: &'a dyn ExecutionHost,
        command: Box<dyn RunningCommand + 'a>,
        reader: PipeReader,
        monitor: &'a mut dyn CommandMonitor,
    ) -> Self {
        Self { host, command, reader: Some(reader), buffer: vec![0; READ_BYTES], monitor, exit_by: None }
    }

    pub(super) fn run(mut self, by: Instant) -> std::io::Result<CommandExit> {
        let mut upkept = Instant::now();
        let halt = loop {
            if self.has_ended() {
                break None;
            }
            if let Some(why) = self.host.stop_reason() {
                break Some(HaltReason::Stopped(why));
            }
            let now = Instant::now();
            if now >= by {
                break Some(HaltReason::TimedOut);
            }
            if self.exit_by.is_some_and(|enough_by| now >= enough_by) {
                break Some(HaltReason::MonitorDone);
            }
            if now - upkept > UPKEEP_INTERVAL {
                upkept = now;
                self.command.tick();
            }
            let until = self.exit_by.map_or(by, |enough_by| enough_by.min(by));
            self.wait(self.host.poll_interval().min(until - now), WakeSources::All);
        };
        // If the process exited just before it would have been stopped, its exit status counts.
        let halt = if self.has_ended() { None } else { halt };
        match halt {
            None => self.settle(),
            Some(_) => self.stop(),
        }
        let end = self.command.wait()?;
        self.drain();
        Ok(CommandExit { status: end.status, is_out_of_memory: end.is_out_of_memory, halt })
    }

    /// Waits briefly for late output from processes that the main process left in the background.
    fn settle(&mut self) {
        let until = Instant::now() + self.command.settle_time();
        while self.reader.is_some() && Instant::now() < until {
            self.wait(until - Instant::now(), WakeSources::OutputOnly);
        }
    }

    /// Sends SIGTERM, waits for the grace period, then sends SIGKILL.
    fn stop(&mut self) {
        let usual = Instant::now() + self.host.grace();
        self.command.terminate();
        loop {
            let kill_by = self.host.kill_by().map_or(usual, |earlier| earlier.min(usual));
            let now = Instant::now();
            if now >= kill_by || (self.has_ended() && self.command.is_gone()) {
                break;
            }
            self.command.continue_stop();
            self.wait(STOP_TICK.min(kill_by - now), WakeSources::Stopping);
        }
        self.command.kill();
    }

    /// Reads the rest of the output from the pipe.
    fn drain(&mut self) {
        let mut until = Instant::now() + DRAIN_TIME_MAX;
        let mut bytes = 0;
        while self.reader.is_some() && bytes < DRAIN_BYTES_MAX && Instant::now() < until {
            if !self.host.has_room() {
                std::thread::sleep(FULL_TICK);
                // Time spent waiting for a slow server does not count towards the limit.
                until += FULL_TICK;
                continue;
            }
            match self.read() {
                0 => self.reader = None,
                length => bytes += length,
            }
        }
        self.reader = None;
    }

    fn has_ended(&self) -> bool {
        let mut fds = [PollFd::from_borrowed_fd(self.command.exit_descriptor(), PollFlags::IN)];
        rustix::event::poll(&mut fds, Some(&timespec(Duration::ZERO))).is_ok_and(|ready| ready > 0)
    }

    /// Waits up to `limit` for output or one of the sources in `wake`. Forwards available output and sends log chunks
    /// that are due.
    fn wait(&mut self, limit: Duration, wake: WakeSources) {
        let has_room = self.host.has_room();
        let mut limit = if has_room { limit } else { limit.min(FULL_TICK) };
        if let Some(due) = self.host.log_due_in() {
            limit = limit.min(due.max(Duration::from_millis(1)));
        }
        limit = limit.min(self.monitor.poll_interval());
        let mut fds = Vec::with_capacity(4);
        if let Some(reader) = self.reader.as_ref().filter(|_| has_room) {
            fds.push(PollFd::new(reader, PollFlags::IN));
        }
        let outputs = fds.len();
        if has_room && let Some(descriptor) = self.monitor.descriptor() {
            fds.push(PollFd::from_borrowed_fd(descriptor, PollFlags::IN));
        }
        if wake == WakeSources::All
            && let Some(told) = self.host.stop_descriptor()
        {
            fds.push(PollFd::from_borrowed_fd(told, PollFlags::IN));
        }
        if wake != WakeSources::OutputOnly && !(wake == WakeSources::Stopping && self.has_ended()) {
            fds.push(PollFd::from_borrowed_fd(self.command.exit_descriptor(), PollFlags::IN));
        }
        // EINTR only shortens the wait.
        let ready = rustix::event::poll(&mut fds, Some(&timespec(limit))).is_ok();
        let is_readable = ready && fds[..outputs].iter().any(|fd| !fd.revents().is_empty());
        drop(fds);
        // Poll the monitor first, so that its lines precede output: a process that writes to both usually prints last.
        if self.monitor.poll(self.host) {
            self.exit_by.get_or_insert_with(|| Instant::now() + EXIT_GRACE);
        }
        if is_readable {
            self.read();
        }
        self.host.tick_log();
    }

    /// Forwards one chunk of output. Returns its length, or 0 if no output is available. Drops the reader at the end of
    /// the output.
    fn read(&mut self) -> usize {
        let Some(reader) = &mut self.reader else { return 0 };
        loop {
            match reader.read(&mut self.buffer) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return 0,
                Ok(0) | Err(_) => {
                    self.reader = None;
                    return 0;
                }
                Ok(length) => {
                    self.host.write(&self.buffer[..length]);
                    return length;
                }
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum WakeSources {
    /// Output, exit of the process, and the stop descriptor.
    All,
    /// Output and exit of the process, which is already being stopped.
    Stopping,
    OutputOnly,
}
