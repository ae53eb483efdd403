//! Input of an analysis.

use berth_core::deployment::FailureCode;

/// Only the last lines of a longer log are analyzed.
pub const LINES_MAX: usize = 5_000;
/// Longer lines are truncated.
pub const LINE_CHARS_MAX: usize = 1_000;
/// Limit for all lines together, each counted with at most [`LINE_CHARS_MAX`].
pub const LOG_BYTES_MAX: usize = 1024 * 1024;

/// A failed step. All text is untrusted.
#[derive(Debug, Clone, Copy)]
pub struct AnalysisInput<'a> {
    /// As in the definition, such as `script`.
    pub step_type: &'a str,
    /// The step's script, if it has one.
    pub run: Option<&'a str>,
    pub ending: StepEnding<'a>,
    /// Masked lines without line endings; only the last ones of a long log.
    pub lines: &'a [String],
    /// Number of the first line in the log, from 1.
    pub first_line: usize,
    /// The log of the last successful run of the same step.
    pub last_good: Option<&'a [String]>,
}

/// How the step ended, as recorded by the engine.
#[derive(Debug, Clone, Copy)]
pub struct StepEnding<'a> {
    pub cause: FailureCode,
    pub exit_code: Option<i32>,
    /// The signal that killed the step's main process.
    pub signal: Option<i32>,
    pub detail: &'a str,
}

impl<'a> StepEnding<'a> {
    /// Parses a recorded failure. The detail names the signal.
    pub fn from_record(cause: FailureCode, exit_code: Option<i32>, detail: &'a str) -> Self {
        let signal = detail.split("ended by signal ").nth(1).filter(|_| exit_code.is_none());
        let digits = signal.and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
        Self { cause, exit_code, signal: digits.and_then(|digits| digits.parse().ok()), detail }
    }

    /// A step that exited with this code.
    pub const fn from_exit_code(code: i32) -> Self {
        Self { cause: FailureCode::StepFailed, exit_code: Some(code), signal: None, detail: "" }
    }

    /// A step that was killed by this signal.
    pub const fn from_signal(signal: i32) -> Self {
        Self { cause: FailureCode::Killed, exit_code: None, signal: Some(signal), detail: "" }
    }

    /// A step that exceeded its timeout.
    pub const fn from_timeout() -> Self {
        Self { cause: FailureCode::TimedOut, exit_code: None, signal: None, detail: "" }
    }

    /// The exit code that a shell would return: 128 plus the signal number.
    pub(crate) fn shell_code(&self) -> Option<i32> {
        self.exit_code.or_else(|| self.signal?.checked_add(128))
    }
}
