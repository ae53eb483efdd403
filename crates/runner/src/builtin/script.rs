//! `script`: shell text, run by `/bin/sh -e -c` in the workspace.
//!
//! `-e` ends the script at the first failing command, so that a later success cannot hide an error. Unset
//! variables expand to nothing, as usual; a script can `set -u`.

use std::io::ErrorKind;
use std::time::Instant;

use berth_api::runner::Outcome;

use super::StepKind;
use crate::attempt::{Attempt, Done, environment, exit, invalid, outputs};
use crate::process::{self, Ended, Halt, SCRIPT_BYTES_MAX};

pub(super) struct Script;

impl StepKind for Script {
    fn name(&self) -> &'static str {
        "script"
    }

    fn run(&self, attempt: &Attempt<'_>) -> Done {
        let text = attempt.text_param("run").ok_or_else(|| invalid("the param `run` is missing".into()))?;
        let ended = shell(attempt, text, attempt.by)?;
        match ended.halt {
            Some(Halt::Told(why)) => return Err(attempt.halted(&why)),
            Some(Halt::TimedOut) => return Err(attempt.timed_out()),
            Some(Halt::Enough) | None => {}
        }
        let has_memory_limit = attempt.settings().step_memory_bytes_max.is_some();
        if let Some(failure) = exit::failure(ended.status, has_memory_limit) {
            return Err(failure);
        }
        collect(attempt)
    }
}

/// Runs shell text until it exits or `by` is reached.
pub(super) fn shell(attempt: &Attempt<'_>, text: &str, by: Instant) -> Result<Ended, Outcome> {
    check(text)?;
    let place = attempt.place()?;
    // Preparing the workspace may have taken long.
    if let Some(why) = attempt.asked() {
        return Err(attempt.halted(&why));
    }
    let cage = attempt.cage(place);
    let mut command = cage.command("/bin/sh");
    command.current_dir(&place.workspace);
    environment::apply(&mut command, attempt.assignment, place)?;
    let given = place.give(attempt.settings());
    let ended = given.and_then(|()| process::run_text(attempt, &cage, command, text, by));
    ended.map_err(|error| match unstarted(&error) {
        // Part of the step may have run, now or in an earlier try: report it as interrupted, so that it is not
        // retried as if it had never started.
        Outcome::NeverStarted { detail, .. } if attempt.has_run.get() => {
            attempt.log.line(&format!("[berth] stopped: the runner cannot continue: {detail}"));
            Outcome::Interrupted
        }
        other => other,
    })
}

fn check(text: &str) -> Result<(), Outcome> {
    if text.len() > SCRIPT_BYTES_MAX {
        return Err(invalid(format!(
            "`run` is longer than {SCRIPT_BYTES_MAX} bytes: put it into a file of the repository and call that"
        )));
    }
    if text.contains('\0') {
        return Err(invalid("`run` holds a NUL byte, which no shell can read".into()));
    }
    Ok(())
}

fn unstarted(error: &std::io::Error) -> Outcome {
    let detail = format!("cannot start /bin/sh: {error}");
    match error.kind() {
        ErrorKind::ArgumentListTooLong => invalid(format!("{detail}; `run` and `env` together are too long")),
        _ => Outcome::never_started(detail),
    }
}

/// Reads the outputs of a finished step.
pub(super) fn collect(attempt: &Attempt<'_>) -> Done {
    let found = outputs::read(&attempt.place()?.output, &attempt.assignment.outputs).map_err(invalid)?;
    for name in &found.undeclared {
        attempt.log.line(&format!(
            "[berth] warning: `{}` is not among the step's `outputs` and is not kept",
            name.escape_debug()
        ));
    }
    Ok(found.values)
}
