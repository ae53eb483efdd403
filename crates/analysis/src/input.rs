//! The input of an analysis.

use berth_core::deployment::FailureCode;

/// Maximum number of lines. If a log has more, only the last lines are analyzed.
pub const LINES_MAX: usize = 5_000;
/// Maximum length of a line. Longer lines are truncated.
pub const LINE_CHARS_MAX: usize = 1_000;
/// Maximum total size of the analyzed lines. A line counts as at most [`LINE_CHARS_MAX`] bytes.
pub const LOG_BYTES_MAX: usize = 1024 * 1024;

/// A failed step to analyze. All text is untrusted.
#[derive(Debug, Clone, Copy)]
pub struct AnalysisInput<'a> {
    /// The step type as written in the definition, such as `script`.
    pub step_type: &'a str,
    /// The script of the step, if it has one.
    pub run: Option<&'a str>,
    pub ending: StepEnding<'a>,
    /// Lines of the log, with secrets masked and without line endings. If the log is long, only its last lines.
    pub lines: &'a [String],
    /// Line number of the first of these lines in the log, counted from 1.
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
    /// Creates an ending from a recorded failure. The signal is parsed from the detail text.
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

    /// The exit code as a shell would return it: 128 plus the signal number if the step was killed by a signal.
    pub(crate) fn shell_code(&self) -> Option<i32> {
        self.exit_code.or_else(|| self.signal?.checked_add(128))
    }
}
