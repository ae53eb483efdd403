//! Executes one call of a custom step, as part of an attempt.

use std::collections::BTreeMap;
use std::io;
use std::process::Command;

use berth_api::runner::{CallInput, CustomCall, FailureCause, Outcome};
use berth_core::registry::{Answer, InputMode};

use super::call::{Call, Finished, Handed, check_length};
use super::exchange::is_whole;
use super::local::unanswered;
use super::{ANSWER_BYTES_MAX, OUTPUTS_MAX, task};
use crate::attempt::{Attempt, Done, environment, exit, failed, invalid};
use crate::control::Why;
use crate::process::Halt;
use crate::settings::STEP_OUTPUT_BYTES_MAX;

/// Returns the outputs of a successful call, or the outcome of any other.
pub(crate) fn run(attempt: &Attempt<'_>, call: &CustomCall) -> Done {
    let assignment = attempt.assignment;
    let approved_by = call.approved_by.as_deref();
    let task =
        task(&call.step_type, &assignment.params, approved_by, call.polling_state.as_ref()).to_string();
    let input = match call.input {
        CallInput::Argument => InputMode::Argument,
        CallInput::File => InputMode::File,
    };
    check_length(input, &task).map_err(invalid)?;
    let place = attempt.place()?;
    let registry = attempt.shared.registries.get(attempt, &call.digest)?;
    let task = match input {
        InputMode::Argument => Handed::Argument(task),
        InputMode::File => {
            let is_secret = attempt.masker.finds_in(&task);
            Handed::File(place.put_task(attempt.settings(), &task, is_secret).map_err(invalid)?)
        }
    };
    // Checked before anything starts: an invalid environment is an error in the step's definition.
    let mut environment = Command::new("/bin/sh");
    environment::apply(&mut environment, assignment, place)?;
    if let Some(why) = attempt.asked() {
        return Err(attempt.halted(&why));
    }
    place.give(attempt.settings()).map_err(|error| not_run(attempt, &error))?;
    let mut cage = attempt.cage(place);
    cage.read.push(registry.path());
    let calling = Call {
        host: attempt,
        cage: &cage,
        registry: registry.path(),
        start: &call.start,
        task,
        parent: &place.dir,
        by: attempt.by,
        answer_bytes_max: ANSWER_BYTES_MAX,
    };
    let finished = calling.run(|command| {
        command.env_clear();
        let set = environment.get_envs().filter_map(|(name, value)| Some((name, value?)));
        // Outputs are part of the answer.
        command.envs(set.filter(|(name, _)| *name != "BERTH_OUTPUT"));
    });
    outcome(attempt, finished.map_err(|error| not_run(attempt, &error))?)
}

fn not_run(attempt: &Attempt<'_>, error: &io::Error) -> Outcome {
    // Part of the step may have run: do not report it as never started.
    if attempt.has_run.get() {
        attempt.log.line(&format!("[berth] stopped: the runner cannot continue: {error}"));
        return Outcome::Interrupted;
    }
    let detail = format!("cannot call the step: {error}");
    match error.kind() {
        io::ErrorKind::ArgumentListTooLong => {
            invalid(format!("{detail}; `params` and `env` together are too long"))
        }
        _ => Outcome::never_started(detail),
    }
}

/// Maps a call's answer to an outcome. After a timeout or a shutdown only a complete answer counts.
fn outcome(attempt: &Attempt<'_>, Finished { answer, ended }: Finished) -> Done {
    let has_whole = answer.as_ref().is_ok_and(|answer| answer.as_deref().is_some_and(is_whole));
    match &ended.halt {
        Some(Halt::Told(why @ (Why::Cancelled { .. } | Why::Stale))) => return Err(attempt.halted(why)),
        Some(Halt::Told(why)) if !has_whole => return Err(attempt.halted(why)),
        Some(Halt::TimedOut) if !has_whole => return Err(late(attempt)),
        Some(_) | None => {}
    }
    let has_memory_limit = attempt.settings().step_memory_bytes_max.is_some();
    let remark = match exit::failure(ended.status, has_memory_limit) {
        Some(Outcome::Failed { detail, .. }) => Some(detail),
        _ => None,
    };
    let problem = match answer {
        Ok(Some(bytes)) => match Answer::parse(&bytes) {
            Ok(answer) => return said(attempt, answer),
            Err(problem) => problem,
        },
        Ok(None) => unanswered(remark.as_deref()),
        Err(problem) => problem,
    };
    attempt.log.line(&format!("[berth] no answer: {problem}"));
    Err(Outcome::Unanswered { detail: problem })
}

/// A timed-out poll has failed; any other call may have had effects.
fn late(attempt: &Attempt<'_>) -> Outcome {
    let is_poll = attempt.assignment.custom.as_ref().is_some_and(|call| call.polling_state.is_some());
    match attempt.timed_out() {
        Outcome::Failed { detail, .. } if !is_poll => {
            Outcome::Unanswered { detail: format!("it {detail}, and wrote no answer") }
        }
        other => other,
    }
}

fn said(attempt: &Attempt<'_>, answer: Answer) -> Done {
    match answer {
        Answer::Succeeded { outputs } => checked(outputs),
        Answer::Failed { error, code } => {
            let detail = code.map_or_else(|| error.clone(), |code| format!("{code}: {error}"));
            Err(failed(FailureCause::Exited, detail))
        }
        Answer::ApprovalRequired { context } => Err(Outcome::ApprovalRequired { context }),
        Answer::Waiting { state, pause_ms } => {
            if attempt.masker.finds_in(&state.to_string()) {
                let detail = "its pollingState contains a secret; it is stored in the database, so return \
                     an id instead: secrets are passed again with every call";
                // The work has started and can no longer be polled, so it must not be started again.
                return Err(Outcome::Unanswered { detail: detail.into() });
            }
            Err(Outcome::Waiting { state, pause_ms })
        }
    }
}

fn checked(outputs: BTreeMap<String, String>) -> Done {
    if outputs.len() > OUTPUTS_MAX {
        return Err(invalid(format!(
            "it answered with {} outputs, but at most {OUTPUTS_MAX} are kept; combine them",
            outputs.len()
        )));
    }
    let bytes: usize = outputs.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes as u64 > STEP_OUTPUT_BYTES_MAX {
        return Err(invalid(format!(
            "its outputs are longer than {STEP_OUTPUT_BYTES_MAX} bytes; keep large things as artifacts"
        )));
    }
    Ok(outputs)
}
