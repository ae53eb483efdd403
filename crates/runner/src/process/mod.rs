//! Runs commands as processes of this machine, in a sandbox.

mod cgroup;
pub(crate) mod proc;
pub(crate) mod tree;

use std::io::{self, PipeWriter, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use rustix::process::{Pid, PidfdFlags, Resource, Rlimit, Signal, kill_process_group, pidfd_open, prlimit};

use crate::executor::{
    self, CommandEnd, CommandExit, CommandMonitor, ExecutionHost, Executor, NoMonitor, RunningCommand,
};
use crate::sandbox::StepSandbox;
use proc::ProcessStat;
use tree::ProcessTree;

/// Shell code that runs before the script and waits for a line on stdin, so that no command runs before the process is
/// in its cgroup and its memory limit is set. It contains no newline, so that line numbers in the shell's error
/// messages match the script.
const GATE: &str = "read -r _ && exec </dev/null || exit 125; ";
/// MAX_ARG_STRLEN: the kernel's limit for a single argument, including its terminating NUL.
const ARGUMENT_BYTES_MAX: usize = 128 * 1024;
/// Maximum length of a script step's text.
pub const SCRIPT_BYTES_MAX: usize = ARGUMENT_BYTES_MAX - GATE.len() - 1;

/// Runs `command` until it has exited and none of its processes is left, at most until `by`. If this returns an error,
/// no process is left either (see [`ProcessTree`]'s `Drop`), and the host was told if a process had been started.
pub(crate) fn run(
    host: &dyn ExecutionHost,
    sandbox: &StepSandbox<'_>,
    mut command: Command,
    by: Instant,
    monitor: &mut dyn CommandMonitor,
) -> io::Result<CommandExit> {
    command.stdin(Stdio::null());
    executor::run(host, &mut ProcessExecutor { sandbox, command: Some(command), gate: None }, by, monitor)
}

/// Like [`run`], but runs a shell script, with [`GATE`] in front of it.
pub(crate) fn run_text(
    host: &dyn ExecutionHost,
    sandbox: &StepSandbox<'_>,
    mut command: Command,
    text: &str,
    by: Instant,
) -> io::Result<CommandExit> {
    let (reader, gate) = io::pipe()?;
    command.args(["-e", "-c", &format!("{GATE}{text}")]).stdin(reader);
    let mut executor = ProcessExecutor { sandbox, command: Some(command), gate: Some(gate) };
    executor::run(host, &mut executor, by, &mut NoMonitor)
}

/// Runs one process in a sandbox of this machine.
struct ProcessExecutor<'s> {
    sandbox: &'s StepSandbox<'s>,
    command: Option<Command>,
    gate: Option<PipeWriter>,
}

impl Executor for ProcessExecutor<'_> {
    fn start<'a>(
        &'a mut self,
        host: &dyn ExecutionHost,
        output: PipeWriter,
    ) -> io::Result<Box<dyn RunningCommand + 'a>> {
        let sandbox = self.sandbox;
        let mut command = self.command.take().ok_or_else(|| io::Error::other("the process was started"))?;
        command.stdout(output.try_clone()?).stderr(output).process_group(0);
        let (tree, child) =
            ProcessTree::start(sandbox.attempt_id_entry(), sandbox.main_is_wrapper(), || {
                sandbox.spawn(&mut command)
            })?;
        host.after_start();
        // `command` holds the write ends of the pipes. Close them, so that the reader sees the end of the output.
        drop(command);
        if let Some(bytes) = host.memory_bytes_max() {
            limit_memory(tree.pid(), bytes);
        }
        let handle = pidfd_open(tree.pid(), PidfdFlags::empty())?;
        if let Some(mut gate) = self.gate.take() {
            gate.write_all(b"\n").ok();
        }
        Ok(Box::new(RunningProcess { sandbox, tree, child, handle, held: None }))
    }
}

fn limit_memory(pid: Pid, bytes: u64) {
    let limit = Rlimit { current: Some(bytes), maximum: Some(bytes) };
    if let Err(error) = prlimit(Some(pid), Resource::As, limit) {
        tracing::warn!(%error, "cannot limit memory of step");
    }
}

struct RunningProcess<'a> {
    sandbox: &'a StepSandbox<'a>,
    tree: ProcessTree,
    child: Child,
    handle: OwnedFd,
    /// A shell that is paused until its commands have exited.
    held: Option<ProcessStat>,
}

impl RunningCommand for RunningProcess<'_> {
    fn exit_descriptor(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }

    fn terminate(&mut self) {
        self.held = self.send_term();
    }

    fn continue_stop(&mut self) {
        if self.held.is_some_and(|held| !self.tree.members().iter().any(|seen| seen.is_child_of(held.pid))) {
            let held = self.held.take();
            held.iter().for_each(|shell| shell.signal(Signal::TERM));
            held.iter().for_each(|shell| shell.signal(Signal::CONT));
        }
    }

    fn is_gone(&mut self) -> bool {
        self.tree.members().is_empty()
    }

    fn kill(&mut self) {
        self.tree.kill();
    }

    /// Reaps orphaned processes that have exited.
    fn tick(&mut self) {
        self.tree.members();
    }

    fn wait(&mut self) -> io::Result<CommandEnd> {
        let status = self.child.wait()?;
        self.tree.kill_remaining();
        Ok(CommandEnd { status, is_out_of_memory: false })
    }
}

impl RunningProcess<'_> {
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
}
