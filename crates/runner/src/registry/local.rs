//! Builds and calls of registries outside of a deployment. Their output is passed to the caller unmasked, because they
//! get no secrets.

use std::cell::{Cell, RefCell};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use berth_api::runner::Network;
use berth_core::registry::InputMode;
use berth_definition::custom_step::METADATA_BYTES_MAX;

use super::call::{CallResult, RegistryCall, TaskInput, check_length};
use super::call_files::is_complete_json;
use super::{BUILD_LOG_BYTES_MAX, RegistryCallError, RegistryCallOutcome, RegistryCallRequest};
use crate::attempt::environment::PATH;
use crate::attempt::exit;
use crate::executor::{ExecutionHost, HaltReason};
use crate::process::tree::become_subreaper;
use crate::random;
use crate::sandbox::StepSandbox;
use crate::settings::STEP_STOP_GRACE;
use crate::stop_signal::StopReason;

/// Interval between two checks of the caller's stop flag.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Callback that receives all output.
type OutputSink<'a> = &'a mut dyn FnMut(&[u8]);

pub(super) struct LocalHost<'a> {
    is_stopping: &'a dyn Fn() -> bool,
    log: RefCell<OutputSink<'a>>,
    written: Cell<u64>,
    ends_line: Cell<bool>,
    has_begun: Cell<bool>,
}

impl<'a> LocalHost<'a> {
    pub(super) fn new(is_stopping: &'a dyn Fn() -> bool, log: &'a mut dyn FnMut(&[u8])) -> Self {
        Self {
            is_stopping,
            log: RefCell::new(log),
            written: Cell::new(0),
            ends_line: Cell::new(true),
            has_begun: Cell::new(false),
        }
    }

    /// Writes a line of the runner itself, even if the output has reached its limit.
    pub(super) fn write_line(&self, text: &str) {
        let begin = if self.ends_line.get() { "" } else { "\n" };
        (self.log.borrow_mut())(format!("{begin}{text}\n").as_bytes());
        self.ends_line.set(true);
    }
}

impl ExecutionHost for LocalHost<'_> {
    fn stop_reason(&self) -> Option<StopReason> {
        (self.is_stopping)().then_some(StopReason::Shutdown)
    }

    fn stop_descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn poll_interval(&self) -> Duration {
        STOP_POLL_INTERVAL
    }

    fn kill_by(&self) -> Option<Instant> {
        None
    }

    fn grace(&self) -> Duration {
        STEP_STOP_GRACE
    }

    fn memory_bytes_max(&self) -> Option<u64> {
        None
    }

    fn after_start(&self) {
        self.has_begun.set(true);
    }

    fn write(&self, bytes: &[u8]) {
        let room = BUILD_LOG_BYTES_MAX.saturating_sub(self.written.get());
        if room == 0 || bytes.is_empty() {
            return;
        }
        let taken = &bytes[..bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX))];
        (self.log.borrow_mut())(taken);
        self.written.set(self.written.get() + taken.len() as u64);
        self.ends_line.set(taken.ends_with(b"\n"));
        if taken.len() as u64 == room {
            self.write_line(&format!("[berth] log truncated: it is longer than {BUILD_LOG_BYTES_MAX} bytes"));
        }
    }

    fn write_aside(&self, line: &[u8]) {
        if !self.ends_line.get() {
            self.write(b"\n");
        }
        self.write(line);
    }

    fn has_room(&self) -> bool {
        true
    }

    fn log_due_in(&self) -> Option<Duration> {
        None
    }

    fn tick_log(&self) {}
}

/// Directories that a build or a call may write to.
pub(super) struct ScratchDirs<'a> {
    pub(super) dir: &'a Path,
    pub(super) tmp: std::path::PathBuf,
    home: std::path::PathBuf,
    pub(super) id: String,
}

impl<'a> ScratchDirs<'a> {
    pub(super) fn new(dir: &'a Path) -> std::io::Result<Self> {
        let (tmp, home) = (dir.join("tmp"), dir.join("home"));
        std::fs::create_dir_all(&tmp)?;
        std::fs::create_dir_all(&home)?;
        Ok(Self { dir, tmp, home, id: format!("local-{}", random::random_hex()?) })
    }

    /// Clears the environment and sets the standard variables.
    pub(super) fn prepare(&self, command: &mut Command, workspace: &Path) {
        command.env_clear().env("PATH", PATH).env("HOME", &self.home).env("TMPDIR", &self.tmp);
        command.env("BERTH_ATTEMPT_ID", &self.id).env("BERTH_WORKSPACE", workspace);
    }
}

/// Makes one call and waits until it ends. Output and log lines are passed to `log` as they arrive.
pub fn call(
    request: &RegistryCallRequest<'_>,
    log: &mut dyn FnMut(&[u8]),
) -> Result<RegistryCallOutcome, RegistryCallError> {
    call_with_host(request, &LocalHost::new(request.is_stopping, log))
}

pub(super) fn call_with_host(
    request: &RegistryCallRequest<'_>,
    host: &LocalHost<'_>,
) -> Result<RegistryCallOutcome, RegistryCallError> {
    let machine = |error: &dyn std::fmt::Display| {
        RegistryCallError::Machine(format!("cannot call the registry: {error}"))
    };
    let task = request.task.to_string();
    check_length(request.input, &task).map_err(RegistryCallError::TooLong)?;
    become_subreaper();
    let scratch = ScratchDirs::new(request.scratch).map_err(|error| machine(&error))?;
    let task = match request.input {
        InputMode::Argument => TaskInput::Argument(task),
        InputMode::File => {
            let path = scratch.dir.join(format!("input-{}.json", scratch.id));
            std::fs::write(&path, task).map_err(|error| machine(&error))?;
            TaskInput::File(path)
        }
    };
    request.confinement.give_to_step_user(scratch.dir).map_err(|error| machine(&error))?;
    let sandbox = StepSandbox {
        confinement: request.confinement,
        tmp: &scratch.tmp,
        writable: vec![scratch.dir, request.workspace],
        readable: vec![request.registry],
        // A call may need the network to query other services.
        network: Network::Host,
        id: &scratch.id,
    };
    let call = RegistryCall {
        host,
        sandbox: &sandbox,
        registry: request.registry,
        start: request.start,
        task,
        parent: scratch.dir,
        by: Instant::now() + request.timeout,
        answer_bytes_max: METADATA_BYTES_MAX,
    };
    let finished = call.run(|command| {
        scratch.prepare(command, request.workspace);
        command.envs(request.env);
    });
    let CallResult { answer, ended } = finished.map_err(|error| machine(&error))?;
    let remark = match exit::failure_outcome(ended.status, exit::MemoryState::Unlimited) {
        _ if ended.halt == Some(HaltReason::MonitorDone) => {
            Some("it did not exit after its answer and was killed".into())
        }
        Some(berth_api::runner::StepRunOutcome::Failed { detail, .. }) => Some(detail),
        _ => None,
    };
    Ok(match (ended.halt, answer) {
        (Some(HaltReason::Stopped(_)), _) => RegistryCallOutcome::Stopped,
        (Some(HaltReason::TimedOut), Ok(Some(answer))) if is_complete_json(&answer) => {
            RegistryCallOutcome::Answered { answer, remark }
        }
        (Some(HaltReason::TimedOut), _) => RegistryCallOutcome::TimedOut,
        (_, Ok(Some(answer))) => RegistryCallOutcome::Answered { answer, remark },
        (_, Ok(None)) => RegistryCallOutcome::Unanswered(no_answer_message(remark.as_deref())),
        (_, Err(problem)) => RegistryCallOutcome::Unanswered(problem),
    })
}

/// Returns the text that tells users that a call wrote no answer.
pub(super) fn no_answer_message(remark: Option<&str>) -> String {
    match remark {
        Some(remark) => format!("it {remark}, and wrote no answer"),
        None => "it exited without writing an answer".into(),
    }
}
