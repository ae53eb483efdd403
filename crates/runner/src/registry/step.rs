//! Executes one call of a custom step, as part of an attempt.

use std::collections::BTreeMap;
use std::io;
use std::process::Command;

use berth_api::runner::{CallInput, CustomCall, FailureCause, StepRunOutcome};
use berth_core::registry::{CustomStepResponse, InputMode};

use super::call::{CallResult, RegistryCall, TaskInput, check_length};
use super::call_files::is_complete_json;
use super::local::no_answer_message;
use super::{ANSWER_BYTES_MAX, OUTPUTS_MAX, execution_task};
use crate::attempt::{RunningAttempt, StepResult, environment, exit, failed_outcome, invalid_outcome};
use crate::executor::HaltReason;
use crate::settings::STEP_OUTPUT_BYTES_MAX;
use crate::stop_signal::StopReason;

/// Makes one call of a custom step. Returns the outputs if the step has succeeded, otherwise the outcome.
pub(crate) fn run_custom_step(attempt: &RunningAttempt<'_>, call: &CustomCall) -> StepResult {
    let assignment = attempt.assignment;
    let approved_by = call.approved_by.as_deref();
    let task = execution_task(&call.step_type, &assignment.params, approved_by, call.polling_state.as_ref())
        .to_string();
    let input = match call.input {
        CallInput::Argument => InputMode::Argument,
        CallInput::File => InputMode::File,
    };
    check_length(input, &task).map_err(invalid_outcome)?;
    let dirs = attempt.workspace_dirs()?;
    let registry = attempt.shared.registries.get(attempt, &call.digest)?;
    let task = match input {
        InputMode::Argument => TaskInput::Argument(task),
        InputMode::File => {
            let is_secret = attempt.masker.contains_secret(&task);
            TaskInput::File(
                dirs.write_task_file(attempt.settings(), &task, is_secret).map_err(invalid_outcome)?,
            )
        }
    };
    // Check the environment before anything starts: an invalid one is an error in the step's definition.
    let mut environment = Command::new("/bin/sh");
    environment::apply_environment(&mut environment, assignment, dirs)?;
    if let Some(why) = attempt.stop_reason() {
        return Err(attempt.stopped_outcome(&why));
    }
    dirs.give_to_step_user(attempt.settings()).map_err(|error| start_failure(attempt, &error))?;
    let mut sandbox = attempt.new_sandbox(dirs);
    sandbox.readable.push(registry.path());
    let calling = RegistryCall {
        host: attempt,
        sandbox: &sandbox,
        registry: registry.path(),
        start: &call.start,
        task,
        parent: &dirs.dir,
        by: attempt.deadline,
        answer_bytes_max: ANSWER_BYTES_MAX,
    };
    let finished = calling.run(|command| {
        command.env_clear();
        let set = environment.get_envs().filter_map(|(name, value)| Some((name, value?)));
        // A custom step returns its outputs in the answer, so it gets no BERTH_OUTPUT.
        command.envs(set.filter(|(name, _)| *name != "BERTH_OUTPUT"));
    });
    call_outcome(attempt, finished.map_err(|error| start_failure(attempt, &error))?)
}

fn start_failure(attempt: &RunningAttempt<'_>, error: &io::Error) -> StepRunOutcome {
    // Part of the step may have run, so do not report it as never started.
    if attempt.has_run.get() {
        attempt.log.write_line(&format!("[berth] stopped: the runner cannot continue: {error}"));
        return StepRunOutcome::Interrupted;
    }
    let detail = format!("cannot call the step: {error}");
    match error.kind() {
        io::ErrorKind::ArgumentListTooLong => {
            invalid_outcome(format!("{detail}; `params` and `env` together are too long"))
        }
        _ => StepRunOutcome::never_started(detail),
    }
}

/// Maps the result of a call to an outcome. If the attempt was cancelled or is stale, the answer is ignored. After a
/// timeout or another kind of stop, only a complete answer counts.
fn call_outcome(attempt: &RunningAttempt<'_>, CallResult { answer, ended }: CallResult) -> StepResult {
    let has_whole = answer.as_ref().is_ok_and(|answer| answer.as_deref().is_some_and(is_complete_json));
    match &ended.halt {
        Some(HaltReason::Stopped(why @ (StopReason::Cancelled { .. } | StopReason::Stale))) => {
            return Err(attempt.stopped_outcome(why));
        }
        Some(HaltReason::Stopped(why)) if !has_whole => return Err(attempt.stopped_outcome(why)),
        Some(HaltReason::TimedOut) if !has_whole => return Err(timeout_outcome(attempt)),
        Some(_) | None => {}
    }
    let has_memory_limit = attempt.settings().step_memory_bytes_max.is_some();
    let remark = match exit::failure_outcome(ended.status, exit::MemoryState::from_limit(has_memory_limit)) {
        Some(StepRunOutcome::Failed { detail, .. }) => Some(detail),
        _ => None,
    };
    let problem = match answer {
        Ok(Some(bytes)) => match CustomStepResponse::parse(&bytes) {
            Ok(answer) => return answer_outcome(attempt, answer),
            Err(problem) => problem,
        },
        Ok(None) => no_answer_message(remark.as_deref()),
        Err(problem) => problem,
    };
    attempt.log.write_line(&format!("[berth] no answer: {problem}"));
    Err(StepRunOutcome::Unanswered { detail: problem })
}

/// Returns the outcome of a call that timed out. A poll has no effects, so it counts as failed. Any other call may have
/// had effects, so its result is unknown.
fn timeout_outcome(attempt: &RunningAttempt<'_>) -> StepRunOutcome {
    let is_poll = attempt.assignment.custom.as_ref().is_some_and(|call| call.polling_state.is_some());
    match attempt.timeout_outcome() {
        StepRunOutcome::Failed { detail, .. } if !is_poll => {
            StepRunOutcome::Unanswered { detail: format!("it {detail}, and wrote no answer") }
        }
        other => other,
    }
}

fn answer_outcome(attempt: &RunningAttempt<'_>, answer: CustomStepResponse) -> StepResult {
    match answer {
        CustomStepResponse::Succeeded { outputs } => check_outputs(outputs),
        CustomStepResponse::Failed { error, code } => {
            let detail = code.map_or_else(|| error.clone(), |code| format!("{code}: {error}"));
            Err(failed_outcome(FailureCause::Exited, detail))
        }
        CustomStepResponse::ApprovalRequired { context } => Err(StepRunOutcome::ApprovalRequired { context }),
        CustomStepResponse::Waiting { state, pause_ms } => {
            if attempt.masker.contains_secret(&state.to_string()) {
                let detail = "its pollingState contains a secret; it is stored in the database, so return \
                     an id instead: secrets are passed again with every call";
                // The step's work has started but cannot be polled, so it must not be started again.
                return Err(StepRunOutcome::Unanswered { detail: detail.into() });
            }
            Err(StepRunOutcome::Waiting { state, pause_ms })
        }
    }
}

fn check_outputs(outputs: BTreeMap<String, String>) -> StepResult {
    if outputs.len() > OUTPUTS_MAX {
        return Err(invalid_outcome(format!(
            "it answered with {} outputs, but at most {OUTPUTS_MAX} are kept; combine them",
            outputs.len()
        )));
    }
    let bytes: usize = outputs.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes as u64 > STEP_OUTPUT_BYTES_MAX {
        return Err(invalid_outcome(format!(
            "its outputs are longer than {STEP_OUTPUT_BYTES_MAX} bytes; keep large things as artifacts"
        )));
    }
    Ok(outputs)
}
