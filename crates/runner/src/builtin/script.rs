//! `script`: runs a shell script with `/bin/sh -e -c` in the workspace.
//!
//! With `-e`, the script ends at the first failing command, so that a later success cannot hide an error. Unset
//! variables expand to nothing, as usual in a shell; a script can use `set -u`.

use std::io::ErrorKind;
use std::time::Instant;

use berth_api::runner::{Isolation, StepRunOutcome};

use super::BuiltinStep;
use crate::attempt::exit::MemoryState;
use crate::attempt::{RunningAttempt, StepResult, environment, exit, invalid_outcome, outputs};
use crate::container::ContainerExecutor;
use crate::executor::{self, CommandExit, Executor, HaltReason, NoMonitor};
#[cfg(feature = "kubernetes")]
use crate::kubernetes::PodExecutor;
use crate::process::{self, SCRIPT_BYTES_MAX};

pub(super) struct ScriptStep;

impl BuiltinStep for ScriptStep {
    fn name(&self) -> &'static str {
        "script"
    }

    fn run(&self, attempt: &RunningAttempt<'_>) -> StepResult {
        let text =
            attempt.text_param("run").ok_or_else(|| invalid_outcome("the param `run` is missing".into()))?;
        let ended = run_shell(attempt, text, attempt.deadline)?;
        match ended.halt {
            Some(HaltReason::Stopped(why)) => return Err(attempt.stopped_outcome(&why)),
            Some(HaltReason::TimedOut) => return Err(attempt.timeout_outcome()),
            Some(HaltReason::MonitorDone) | None => {}
        }
        if let Some(failure) = exit::failure_outcome(ended.status, memory_state(attempt, &ended)) {
            return Err(failure);
        }
        collect_outputs(attempt)
    }
}

fn memory_state(attempt: &RunningAttempt<'_>, ended: &CommandExit) -> MemoryState {
    let container = attempt.assignment.container.as_ref();
    let has_limit = attempt.settings().step_memory_bytes_max.is_some()
        || container.is_some_and(|container| container.memory_bytes.is_some());
    if ended.is_out_of_memory { MemoryState::Exceeded } else { MemoryState::from_limit(has_limit) }
}

/// Runs a shell script until it exits, at most until `by`.
pub(super) fn run_shell(
    attempt: &RunningAttempt<'_>,
    text: &str,
    by: Instant,
) -> Result<CommandExit, StepRunOutcome> {
    check_script_text(text)?;
    let dirs = attempt.workspace_dirs()?;
    // Preparing the workspace may have taken long, so check again whether to stop.
    if let Some(why) = attempt.stop_reason() {
        return Err(attempt.stopped_outcome(&why));
    }
    if let Some(container) = &attempt.assignment.container {
        #[cfg(feature = "kubernetes")]
        if let Some(cluster) = &attempt.shared.kubernetes {
            let mut executor = PodExecutor::new(attempt, cluster, dirs, container, text)?;
            return run_in_container(attempt, &mut executor, by);
        }
        let mut executor = ContainerExecutor::new(attempt, dirs, container, text)?;
        return run_in_container(attempt, &mut executor, by);
    }
    let sandbox = attempt.new_sandbox(dirs);
    let mut command = sandbox.command("/bin/sh");
    command.current_dir(&dirs.workspace);
    environment::apply_environment(&mut command, attempt.assignment, dirs)?;
    let given = dirs.give_to_step_user(attempt.settings());
    let ended = given.and_then(|()| process::run_text(attempt, &sandbox, command, text, by));
    ended.map_err(|error| run_failure(attempt, &error))
}

/// Runs a prepared container, and removes it and its services even if it could not be started.
fn run_in_container(
    attempt: &RunningAttempt<'_>,
    executor: &mut dyn Executor,
    by: Instant,
) -> Result<CommandExit, StepRunOutcome> {
    attempt.isolation.set(Isolation::Container);
    let ended = match executor.prepare() {
        Ok(()) => {
            executor::run(attempt, executor, by, &mut NoMonitor).map_err(|error| run_failure(attempt, &error))
        }
        Err(outcome) => Err(outcome),
    };
    executor.reap().map_err(|error| run_failure(attempt, &error))?;
    ended
}

fn run_failure(attempt: &RunningAttempt<'_>, error: &std::io::Error) -> StepRunOutcome {
    match start_failure(error) {
        // Part of the step may have run, now or in an earlier run of a `wait_for` command. Report it as interrupted;
        // otherwise it would be retried as if it had never started.
        StepRunOutcome::NeverStarted { detail, .. } if attempt.has_run.get() => {
            attempt.log.write_line(&format!("[berth] stopped: the runner cannot continue: {detail}"));
            StepRunOutcome::Interrupted
        }
        other => other,
    }
}

fn check_script_text(text: &str) -> Result<(), StepRunOutcome> {
    if text.len() > SCRIPT_BYTES_MAX {
        return Err(invalid_outcome(format!(
            "`run` is longer than {SCRIPT_BYTES_MAX} bytes: put it into a file of the repository and call that"
        )));
    }
    if text.contains('\0') {
        return Err(invalid_outcome("`run` holds a NUL byte, which no shell can read".into()));
    }
    Ok(())
}

fn start_failure(error: &std::io::Error) -> StepRunOutcome {
    let detail = format!("cannot start /bin/sh: {error}");
    match error.kind() {
        ErrorKind::ArgumentListTooLong => {
            invalid_outcome(format!("{detail}; `run` and `env` together are too long"))
        }
        ErrorKind::InvalidInput => invalid_outcome(detail),
        _ => StepRunOutcome::never_started(detail),
    }
}

/// Reads the outputs of a step that has finished.
pub(super) fn collect_outputs(attempt: &RunningAttempt<'_>) -> StepResult {
    let found = outputs::read_outputs(&attempt.workspace_dirs()?.output, &attempt.assignment.outputs)
        .map_err(invalid_outcome)?;
    for name in &found.undeclared {
        attempt.log.write_line(&format!(
            "[berth] warning: `{}` is not among the step's `outputs` and is not kept",
            name.escape_debug()
        ));
    }
    Ok(found.values)
}
