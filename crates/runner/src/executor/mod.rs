//! The seam between a step's command and the place where it runs.
//!
//! An [`Executor`] prepares and starts a command, as a process of this machine, in a container or in a pod of a Kubernetes
//! cluster. Everything else is the same for every executor and stays outside of it: the deadline, stopping in stages,
//! the log and its masking, outputs, artifacts, leases and fences.

mod host;
mod output;
mod watch;

use std::io::{self, PipeWriter};
use std::os::fd::BorrowedFd;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use berth_api::runner::StepRunOutcome;

pub(crate) use host::{CommandMonitor, ExecutionHost, NoMonitor};
pub(crate) use output::OutputPipe;
use watch::CommandWatch;

use crate::stop_signal::StopReason;

/// How long to wait for late output after the main process has exited, for example from `tee`.
const SETTLE_TIME: Duration = Duration::from_millis(100);

/// Runs one command.
pub(crate) trait Executor {
    /// Prepares what the command needs, such as an image, and reports the progress in the log. May take long, and
    /// returns early when the attempt has to stop. Nothing of the step has run when this returns.
    fn prepare(&mut self) -> Result<(), StepRunOutcome> {
        Ok(())
    }

    /// Starts the command, which writes its output to `output`. Calls [`ExecutionHost::after_start`] as soon as the
    /// command may have effects, even if this then returns an error.
    fn start<'a>(
        &'a mut self,
        host: &dyn ExecutionHost,
        output: PipeWriter,
    ) -> io::Result<Box<dyn RunningCommand + 'a>>;

    /// Removes everything that was prepared or started. Returns when nothing is left. An error means that something may
    /// be left, so the attempt must not be reported as stopped.
    fn reap(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A command that was started.
pub(crate) trait RunningCommand {
    /// A descriptor that becomes readable when the main process has exited.
    fn exit_descriptor(&self) -> BorrowedFd<'_>;

    /// Asks the command to stop, with SIGTERM. Does not wait.
    fn terminate(&mut self);

    /// Continues a stop that [`terminate`](Self::terminate) has begun. Called repeatedly until the command is gone.
    fn continue_stop(&mut self) {}

    /// Whether no process is left.
    fn is_gone(&mut self) -> bool;

    /// Kills all processes with SIGKILL.
    fn kill(&mut self);

    /// Upkeep while the command runs. Called every few seconds.
    fn tick(&mut self) {}

    /// How long late output may take to arrive after the main process has exited.
    fn settle_time(&self) -> Duration {
        SETTLE_TIME
    }

    /// Returns how the main process exited. No process of the command is left when this returns.
    fn wait(&mut self) -> io::Result<CommandEnd>;
}

/// How the main process of a command exited.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CommandEnd {
    pub(crate) status: ExitStatus,
    /// The kernel killed a process because of the memory limit.
    pub(crate) is_out_of_memory: bool,
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct CommandExit {
    pub(crate) status: ExitStatus,
    pub(crate) is_out_of_memory: bool,
    /// Why the command was stopped. `None` if it exited by itself.
    pub(crate) halt: Option<HaltReason>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HaltReason {
    Stopped(StopReason),
    TimedOut,
    /// The monitor found that the process had done its work, but the process did not exit soon enough.
    MonitorDone,
}

/// Runs a prepared command until it has exited and none of its processes is left, at most until `by`. If this returns
/// an error, the host was told if the command had been started.
pub(crate) fn run(
    host: &dyn ExecutionHost,
    executor: &mut dyn Executor,
    by: Instant,
    monitor: &mut dyn CommandMonitor,
) -> io::Result<CommandExit> {
    host.before_start()?;
    let (reader, writer) = io::pipe()?;
    rustix::io::ioctl_fionbio(&reader, true)?;
    let command = executor.start(host, writer)?;
    CommandWatch::new(host, command, reader, monitor).run(by)
}
