//! Runs one process of an attempt or a build: its output into the log, its end seen, its whole tree ended when it has to.
//!
//! One thread waits on everything at once: output, the end of the main process (its pidfd), being told to stop, and
//! what is looked at beside. It is over when its main process is; what that left in the background is ended then.

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

use crate::control::{Why, timespec};
use crate::sandbox::Cage;
pub(crate) use host::{Beside, Host, Nothing};
use proc::Seen;
use tree::Tree;

const READ_BYTES: usize = 64 * 1024;
/// The longest wait without a look at the clock.
const TICK: Duration = Duration::from_secs(1);
/// How often to look whether anything of a step that was told to stop is left.
const STOP_TICK: Duration = Duration::from_millis(20);
/// When the log is full, how soon to look for room again.
const FULL_TICK: Duration = Duration::from_millis(5);
/// What a finished step still has in flight, such as a `tee` behind its shell, may arrive for this long.
const SETTLE: Duration = Duration::from_millis(100);
/// What is still in the pipe when the step is over is read for this long, and at most this much: nobody should write any
/// more, but a daemon that could not be found may do so for ever.
const DRAIN: Duration = Duration::from_secs(1);
const DRAIN_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Orphans that have ended are waited for this often while a step runs.
const REAP_EVERY: Duration = Duration::from_secs(10);
/// A process that has done its work has this long to end by itself.
const ENOUGH_GRACE: Duration = Duration::from_secs(2);

/// The shell waits for a line on its standard input: nothing of the text runs before the process is in its cgroup and its
/// memory is limited. On one line with the beginning of the text, so that the shell counts the lines of the text alone.
const GATE: &str = "read -r _ && exec </dev/null || exit 125; ";
/// The kernel takes no longer argument, the byte at its end included.
const ARGUMENT_BYTES_MAX: usize = 128 * 1024;
pub const SCRIPT_BYTES_MAX: usize = ARGUMENT_BYTES_MAX - GATE.len() - 1;

/// How a process ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    /// Why we ended it; nothing when it ended by itself.
    pub(crate) halt: Option<Halt>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Halt {
    Told(Why),
    TimedOut,
    /// What was looked at beside it said so.
    Enough,
}

/// Runs `command` until it has ended and nothing of it is left. `by` is when its time is over. After an error nothing is
/// left either: the end of the [`Tree`] sees to that. Whether anything ran, the host knows.
pub(crate) fn run(
    host: &dyn Host,
    cage: &Cage<'_>,
    mut command: Command,
    by: Instant,
    beside: &mut dyn Beside,
) -> std::io::Result<Ended> {
    command.stdin(Stdio::null());
    start(host, cage, command, by, beside, None)
}

/// Runs shell text as [`run`] does, behind [`GATE`].
pub(crate) fn run_text(
    host: &dyn Host,
    cage: &Cage<'_>,
    mut command: Command,
    text: &str,
    by: Instant,
) -> std::io::Result<Ended> {
    let (reader, gate) = std::io::pipe()?;
    command.args(["-e", "-c", &format!("{GATE}{text}")]).stdin(reader);
    start(host, cage, command, by, &mut Nothing, Some(gate))
}

fn start(
    host: &dyn Host,
    cage: &Cage<'_>,
    mut command: Command,
    by: Instant,
    beside: &mut dyn Beside,
    gate: Option<PipeWriter>,
) -> std::io::Result<Ended> {
    host.begins()?;
    let (reader, writer) = std::io::pipe()?;
    rustix::io::ioctl_fionbio(&reader, true)?;
    command.stdout(writer.try_clone()?).stderr(writer).process_group(0);
    let (tree, child) = Tree::start(cage.mark(), cage.main_is_wrapper(), || cage.spawn(&mut command))?;
    host.begun();
    // The command keeps our ends of the pipe open; without them its end can be seen.
    drop(command);
    if let Some(bytes) = host.memory_bytes_max() {
        limit_memory(tree.pid(), bytes);
    }
    let handle = pidfd_open(tree.pid(), PidfdFlags::empty())?;
    if let Some(mut gate) = gate {
        gate.write_all(b"\n").ok();
    }
    let watch = Watch {
        host,
        cage,
        handle,
        tree,
        child,
        reader: Some(reader),
        buffer: vec![0; READ_BYTES],
        beside,
        enough_by: None,
    };
    watch.run(by)
}

fn limit_memory(pid: Pid, bytes: u64) {
    let limit = Rlimit { current: Some(bytes), maximum: Some(bytes) };
    if let Err(error) = prlimit(Some(pid), Resource::As, limit) {
        tracing::warn!("the memory of a step is not limited: {error}");
    }
}

struct Watch<'a> {
    host: &'a dyn Host,
    cage: &'a Cage<'a>,
    tree: Tree,
    child: Child,
    handle: OwnedFd,
    /// Nothing once every writer is gone.
    reader: Option<PipeReader>,
    buffer: Vec<u8>,
    beside: &'a mut dyn Beside,
    /// Since it has done its work: when it is ended.
    enough_by: Option<Instant>,
}

impl Watch<'_> {
    fn run(mut self, by: Instant) -> std::io::Result<Ended> {
        let mut reaped = Instant::now();
        let halt = loop {
            if self.has_ended() {
                break None;
            }
            if let Some(why) = self.host.asked() {
                break Some(Halt::Told(why));
            }
            let now = Instant::now();
            if now >= by {
                break Some(Halt::TimedOut);
            }
            if self.enough_by.is_some_and(|enough_by| now >= enough_by) {
                break Some(Halt::Enough);
            }
            if now - reaped > REAP_EVERY {
                reaped = now;
                self.tree.members();
            }
            let until = self.enough_by.map_or(by, |enough_by| enough_by.min(by));
            self.wait(self.host.tick().min(until - now), Wake::Watched);
        };
        // It may have ended by itself in the moment it was told to stop: then that is how it ended.
        let halt = if self.has_ended() { None } else { halt };
        match halt {
            None => self.settle(),
            Some(_) => self.stop(),
        }
        let status = self.child.wait()?;
        self.tree.end();
        self.drain();
        Ok(Ended { status, halt })
    }

    /// The last output of what the main process left behind, if it comes soon.
    fn settle(&mut self) {
        let until = Instant::now() + SETTLE;
        while self.reader.is_some() && Instant::now() < until {
            self.wait(until - Instant::now(), Wake::OutputOnly);
        }
    }

    /// TERM to all, time to end, then KILL.
    fn stop(&mut self) {
        let usual = Instant::now() + self.host.grace();
        let mut held = self.tell_to_end();
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
            self.wait(STOP_TICK.min(kill_by - now), Wake::Stopping);
        }
        self.tree.kill();
    }

    /// TERM to every process. A wrapper would take the whole sandbox with it, and so would the end of the shell inside,
    /// while its commands still clean up: the shell is held, so that it neither ends nor goes on, until they have ended.
    fn tell_to_end(&self) -> Option<Seen> {
        let members = self.tree.members();
        let main = self.tree.pid();
        if !self.cage.main_is_wrapper() {
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

    /// What is in the pipe when nobody writes any more.
    fn drain(&mut self) {
        let mut until = Instant::now() + DRAIN;
        let mut bytes = 0;
        while self.reader.is_some() && bytes < DRAIN_BYTES_MAX && Instant::now() < until {
            if !self.host.has_room() {
                std::thread::sleep(FULL_TICK);
                // A slow server takes none of the step's time.
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

    /// Waits for output and for what `wake` names, reads what is there, and lets the log send what is due.
    fn wait(&mut self, limit: Duration, wake: Wake) {
        let has_room = self.host.has_room();
        let mut limit = if has_room { limit } else { limit.min(FULL_TICK) };
        if let Some(due) = self.host.due_in() {
            limit = limit.min(due.max(Duration::from_millis(1)));
        }
        limit = limit.min(self.beside.tick());
        let mut fds = Vec::with_capacity(4);
        if let Some(reader) = self.reader.as_ref().filter(|_| has_room) {
            fds.push(PollFd::new(reader, PollFlags::IN));
        }
        let outputs = fds.len();
        if has_room && let Some(descriptor) = self.beside.descriptor() {
            fds.push(PollFd::from_borrowed_fd(descriptor, PollFlags::IN));
        }
        if wake == Wake::Watched
            && let Some(told) = self.host.wake()
        {
            fds.push(PollFd::from_borrowed_fd(told, PollFlags::IN));
        }
        if wake != Wake::OutputOnly && !(wake == Wake::Stopping && self.has_ended()) {
            fds.push(PollFd::new(&self.handle, PollFlags::IN));
        }
        // An interrupted wait is a short one.
        let ready = rustix::event::poll(&mut fds, Some(&timespec(limit))).is_ok();
        let is_readable = ready && fds[..outputs].iter().any(|fd| !fd.revents().is_empty());
        drop(fds);
        // Looked at first: whoever writes to both mostly prints what comes last.
        if self.beside.look(self.host) {
            self.enough_by.get_or_insert_with(|| Instant::now() + ENOUGH_GRACE);
        }
        if is_readable {
            self.read();
        }
        self.host.see_to_log();
    }

    /// One piece of output, and its length. Zero when there is none now; the reader is given up at the end.
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
enum Wake {
    /// Output, the end of the process, and being told to stop.
    Watched,
    /// Output and the end of the process: it was told already.
    Stopping,
    OutputOnly,
}
