//! Runs one process of an attempt or a build: forwards its output, waits until it exits, and kills its process tree.
//!
//! A single thread polls the output, the pidfd of the process, the stop descriptor and the monitor. The run ends when
//! the main process exits. Processes that it left in the background are then killed.

mod cgroup;
mod host;
pub(crate) mod proc;
pub(crate) mod tree;

use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags, Resource, Rlimit, Signal, kill_process_group, pidfd_open, prlimit};

use crate::sandbox::StepSandbox;
use crate::stop_signal::{StopReason, timespec};
pub(crate) use host::{NoMonitor, ProcessHost, ProcessMonitor};
use proc::ProcessStat;
use tree::ProcessTree;

const READ_BYTES: usize = 64 * 1024;
/// Maximum interval between two checks of the deadline.
const TICK: Duration = Duration::from_secs(1);
/// Interval between two checks whether a stopped step still has processes.
const STOP_TICK: Duration = Duration::from_millis(20);
/// Interval between two checks for room in a full log buffer.
const FULL_TICK: Duration = Duration::from_millis(5);
/// How long to wait for late output after the main process has exited, for example from `tee`.
const SETTLE_TIME: Duration = Duration::from_millis(100);
/// Limits for reading the rest of the pipe after a step, in time and size. Normally no process has the pipe open any
/// more, but a daemon that was not found could write to it forever.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(1);
const DRAIN_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Interval between two reaps of orphaned processes that have exited, while a step runs.
const REAP_INTERVAL: Duration = Duration::from_secs(10);
/// How long a process that has done its work may take to exit.
const EXIT_GRACE: Duration = Duration::from_secs(2);

/// Shell code that runs before the script and waits for a line on stdin, so that no command runs before the process is
/// in its cgroup and its memory limit is set. It contains no newline, so that line numbers in the shell's error
/// messages match the script.
const GATE: &str = "read -r _ && exec </dev/null || exit 125; ";
/// MAX_ARG_STRLEN: the kernel's limit for a single argument, including its terminating NUL.
const ARGUMENT_BYTES_MAX: usize = 128 * 1024;
/// Maximum length of a script step's text.
pub const SCRIPT_BYTES_MAX: usize = ARGUMENT_BYTES_MAX - GATE.len() - 1;

/// How a process ended.
#[derive(Debug)]
pub(crate) struct ProcessExit {
    pub(crate) status: ExitStatus,
    /// Why the process was stopped. `None` if it exited by itself.
    pub(crate) halt: Option<HaltReason>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HaltReason {
    Stopped(StopReason),
    TimedOut,
    /// The monitor found that the process had done its work, but the process did not exit soon enough.
    MonitorDone,
}

/// Runs `command` until it has exited and none of its processes is left, at most until `by`. If this returns an error,
/// no process is left either (see [`ProcessTree`]'s `Drop`), and the host was told if a process had been started.
pub(crate) fn run(
    host: &dyn ProcessHost,
    sandbox: &StepSandbox<'_>,
    mut command: Command,
    by: Instant,
    monitor: &mut dyn ProcessMonitor,
) -> std::io::Result<ProcessExit> {
    command.stdin(Stdio::null());
    start(host, sandbox, command, by, monitor, None)
}

/// Like [`run`], but runs a shell script, with [`GATE`] in front of it.
pub(crate) fn run_text(
    host: &dyn ProcessHost,
    sandbox: &StepSandbox<'_>,
    mut command: Command,
    text: &str,
    by: Instant,
) -> std::io::Result<ProcessExit> {
    let (reader, gate) = std::io::pipe()?;
    command.args(["-e", "-c", &format!("{GATE}{text}")]).stdin(reader);
    start(host, sandbox, command, by, &mut NoMonitor, Some(gate))
}

fn start(
    host: &dyn ProcessHost,
    sandbox: &StepSandbox<'_>,
    mut command: Command,
    by: Instant,
    monitor: &mut dyn ProcessMonitor,
    gate: Option<PipeWriter>,
) -> std::io::Result<ProcessExit> {
    host.before_start()?;
    let (reader, writer) = std::io::pipe()?;
    rustix::io::ioctl_fionbio(&reader, true)?;
    command.stdout(writer.try_clone()?).stderr(writer).process_group(0);
    let (tree, child) = ProcessTree::start(sandbox.attempt_id_entry(), sandbox.main_is_wrapper(), || {
        sandbox.spawn(&mut command)
    })?;
    host.after_start();
    // `command` holds the write ends of the pipes. Close them, so that the reader sees the end of the output.
    drop(command);
    if let Some(bytes) = host.memory_bytes_max() {
        limit_memory(tree.pid(), bytes);
    }
    let handle = pidfd_open(tree.pid(), PidfdFlags::empty())?;
    if let Some(mut gate) = gate {
        gate.write_all(b"\n").ok();
    }
    let watch = ProcessWatch {
        host,
        sandbox,
        handle,
        tree,
        child,
        reader: Some(reader),
        buffer: vec![0; READ_BYTES],
        monitor,
        exit_by: None,
    };
    watch.run(by)
}

fn limit_memory(pid: Pid, bytes: u64) {
    let limit = Rlimit { current: Some(bytes), maximum: Some(bytes) };
    if let Err(error) = prlimit(Some(pid), Resource::As, limit) {
        tracing::warn!(%error, "cannot limit memory of step");
    }
}

struct ProcessWatch<'a> {
    host: &'a dyn ProcessHost,
    sandbox: &'a StepSandbox<'a>,
    tree: ProcessTree,
    child: Child,
    handle: OwnedFd,
    /// Set to `None` once all writers have closed the pipe.
    reader: Option<PipeReader>,
    buffer: Vec<u8>,
    monitor: &'a mut dyn ProcessMonitor,
    /// When to kill the process, once it has done its work.
    exit_by: Option<Instant>,
}

impl ProcessWatch<'_> {
    fn run(mut self, by: Instant) -> std::io::Result<ProcessExit> {
        let mut reaped = Instant::now();
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
            if now - reaped > REAP_INTERVAL {
                reaped = now;
                self.tree.members();
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
        let status = self.child.wait()?;
        self.tree.kill_remaining();
        self.drain();
        Ok(ProcessExit { status, halt })
    }

    /// Waits briefly for late output from processes that the main process left in the background.
    fn settle(&mut self) {
        let until = Instant::now() + SETTLE_TIME;
        while self.reader.is_some() && Instant::now() < until {
            self.wait(until - Instant::now(), WakeSources::OutputOnly);
        }
    }

    /// Sends SIGTERM, waits for the grace period, then sends SIGKILL.
    fn stop(&mut self) {
        let usual = Instant::now() + self.host.grace();
        let mut held = self.send_term();
        loop {
            let kill_by = self.host.kill_by().map_or(usual, |earlier| earlier.min(usual));
            let now = Instant::now();
            if now >= kill_by || (self.has_ended() && self.tree.members().is_empty()) {
                break;
            }
            if held.is_some_and(|held| !self.tree.members().iter().any(|seen| seen.is_child_of(held.pid))) {
                let held = held.take();
                held.iter().for_each(|shell| shell.signal(Signal::TERM));
                held.iter().for_each(|shell| shell.signal(Signal::CONT));
            }
            self.wait(STOP_TICK.min(kill_by - now), WakeSources::Stopping);
        }
        self.tree.kill();
    }

    /// Sends SIGTERM to the processes of the step. In a sandbox, if the wrapper or the shell exited first, the commands
    /// would be killed while they clean up. The wrapper therefore gets no signal, and a shell with running commands is
    /// paused with SIGSTOP until they have exited. Returns the paused shell.
    fn send_term(&self) -> Option<ProcessStat> {
        let members = self.tree.members();
        let main = self.tree.pid();
        if !self.sandbox.main_is_wrapper() {
            kill_process_group(main, Signal::TERM).ok();
            let elsewhere = members.iter().filter(|seen| seen.group != main.as_raw_nonzero().get());
            elsewhere.for_each(|seen| seen.signal(Signal::TERM));
            return None;
        }
        let child_of = |pid: Pid| members.iter().find(|seen| seen.is_child_of(pid)).copied();
        let init = child_of(main);
        let shell = init.and_then(|init| child_of(init.pid));
        let held = shell.filter(|shell| child_of(shell.pid).is_some());
        held.iter().for_each(|shell| shell.signal(Signal::STOP));
        let spared = [Some(main), init.map(|init| init.pid), held.map(|shell| shell.pid)];
        for seen in members.iter().filter(|seen| !spared.contains(&Some(seen.pid))) {
            seen.signal(Signal::TERM);
        }
        held
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
        let mut fds = [PollFd::from_borrowed_fd(self.handle.as_fd(), PollFlags::IN)];
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
            fds.push(PollFd::new(&self.handle, PollFlags::IN));
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
