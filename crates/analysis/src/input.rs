//! What an analysis is made from.

use berth_core::deployment::Cause;

/// Of a longer log the last lines count.
pub const LINES_MAX: usize = 5_000;
/// What follows in a longer line is not looked at.
pub const LINE_CHARS_MAX: usize = 1_000;
/// Of all lines together, each counted at most [`LINE_CHARS_MAX`].
pub const LOG_BYTES_MAX: usize = 1024 * 1024;

/// What is known of a failed step. All text is somebody else's.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// As the definition names it: `script`.
    pub step_type: &'a str,
    /// The script of the step, if it has one.
    pub run: Option<&'a str>,
    pub ending: Ending<'a>,
    /// Masked lines without their line ends; the last ones, if there were more.
    pub lines: &'a [String],
    /// The number of the first of them in the log, from 1.
    pub first_line: usize,
    /// The log of the last run of the same step that succeeded.
    pub last_good: Option<&'a [String]>,
}

/// How the step ended, as the engine knows it.
#[derive(Debug, Clone, Copy)]
pub struct Ending<'a> {
    pub cause: Cause,
    pub exit_code: Option<i32>,
    /// The signal that ended the step's own process.
    pub signal: Option<i32>,
    pub detail: &'a str,
}

impl<'a> Ending<'a> {
    /// From what is recorded of a failure. The engine names a signal in its detail.
    pub fn recorded(cause: Cause, exit_code: Option<i32>, detail: &'a str) -> Self {
        let signal = detail.split("ended by signal ").nth(1).filter(|_| exit_code.is_none());
        let digits = signal.and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
        Self { cause, exit_code, signal: digits.and_then(|digits| digits.parse().ok()), detail }
    }

    pub const fn exited(code: i32) -> Self {
        Self { cause: Cause::StepFailed, exit_code: Some(code), signal: None, detail: "" }
    }

    pub const fn killed(signal: i32) -> Self {
        Self { cause: Cause::Killed, exit_code: None, signal: Some(signal), detail: "" }
    }

    pub const fn timed_out() -> Self {
        Self { cause: Cause::TimedOut, exit_code: None, signal: None, detail: "" }
    }

    /// The exit code a shell would give: 128 and the number of a signal.
    pub(crate) fn shell_code(&self) -> Option<i32> {
        self.exit_code.or_else(|| self.signal?.checked_add(128))
    }
}
