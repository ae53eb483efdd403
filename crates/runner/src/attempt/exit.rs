//! Translates a process's exit status into an outcome.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use berth_api::runner::{FailureCause, StepRunOutcome};

const SIGKILL: i32 = 9;

/// What is known about the memory of a failed step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MemoryState {
    /// The kernel killed a process because of the step's memory limit.
    Exceeded,
    Limited,
    Unlimited,
}

impl MemoryState {
    pub(crate) const fn from_limit(has_limit: bool) -> Self {
        if has_limit { Self::Limited } else { Self::Unlimited }
    }
}

/// Returns the outcome for a failed process, or `None` if the process was successful.
pub(crate) fn failure_outcome(status: ExitStatus, memory: MemoryState) -> Option<StepRunOutcome> {
    let hint = match memory {
        MemoryState::Exceeded => "it exceeded the step's memory limit",
        MemoryState::Limited => "perhaps it exceeded the step's memory limit",
        MemoryState::Unlimited => "perhaps the machine ran out of memory",
    };
    if let Some(signal) = status.signal() {
        let mut detail = format!("ended by signal {}", signal_name(signal));
        if signal == SIGKILL {
            detail = format!("{detail}, which the runner did not send: {hint}");
        }
        return Some(StepRunOutcome::Failed { cause: FailureCause::Killed, detail, exit_code: None });
    }
    let code = status.code().filter(|code| *code != 0)?;
    let detail = match code {
        126 => "exited with 126: the command cannot be executed (permission denied, or not a program)".into(),
        127 => "exited with 127: a command was not found".into(),
        137 => format!("exited with 137: a command in it was ended by signal 9 (KILL): {hint}"),
        code @ 129..=192 => {
            format!("exited with {code}: a command in it was ended by signal {}", signal_name(code - 128))
        }
        code => format!("exited with {code}"),
    };
    Some(StepRunOutcome::Failed { cause: FailureCause::Exited, detail, exit_code: Some(code) })
}

fn signal_name(signal: i32) -> String {
    const NAMES: &[(i32, &str)] = &[
        (1, "HUP"),
        (2, "INT"),
        (3, "QUIT"),
        (4, "ILL"),
        (6, "ABRT"),
        (7, "BUS"),
        (8, "FPE"),
        (9, "KILL"),
        (11, "SEGV"),
        (13, "PIPE"),
        (14, "ALRM"),
        (15, "TERM"),
        (24, "XCPU"),
        (25, "XFSZ"),
    ];
    match NAMES.iter().find(|(number, _)| *number == signal) {
        Some((number, name)) => format!("{number} ({name})"),
        None => signal.to_string(),
    }
}

pub(crate) fn failed_outcome(cause: FailureCause, detail: String) -> StepRunOutcome {
    StepRunOutcome::Failed { cause, detail, exit_code: None }
}

pub(crate) fn invalid_outcome(detail: String) -> StepRunOutcome {
    failed_outcome(FailureCause::Invalid, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(raw: i32, expected: Option<(FailureCause, &str)>) {
        let found =
            failure_outcome(ExitStatus::from_raw(raw), MemoryState::Unlimited).map(|outcome| match outcome {
                StepRunOutcome::Failed { cause, detail, .. } => (cause, detail),
                other => panic!("{other:?}"),
            });
        assert_eq!(found, expected.map(|(cause, detail)| (cause, detail.to_owned())));
    }

    #[test]
    fn exit_statuses_are_described() {
        check(0, None);
        check(3 << 8, Some((FailureCause::Exited, "exited with 3")));
        check(127 << 8, Some((FailureCause::Exited, "exited with 127: a command was not found")));
        check(
            143 << 8,
            Some((FailureCause::Exited, "exited with 143: a command in it was ended by signal 15 (TERM)")),
        );
        check(11, Some((FailureCause::Killed, "ended by signal 11 (SEGV)")));
        check(
            9,
            Some((
                FailureCause::Killed,
                "ended by signal 9 (KILL), which the runner did not send: perhaps the machine ran out of memory",
            )),
        );
    }
}
