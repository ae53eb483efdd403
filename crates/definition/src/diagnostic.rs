//! A problem in a definition, told so that its author can fix it without asking.

use std::fmt;

use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    Error,
    Warning,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    pub severity: Severity,
    /// Stable and in snake_case: what programs look at.
    pub code: &'static str,
    /// For people: short, and says what to do.
    pub message: String,
    /// JSON pointer of the value the message is about, `/pipeline/steps/0/timeout`.
    pub pointer: String,
    /// From 1.
    pub line: u32,
    /// From 1, in characters.
    pub column: u32,
    /// The column after the last character concerned, on the same line.
    pub end_column: u32,
    /// The line itself, cut when very long.
    pub source_line: String,
    /// What to write instead, where that is known.
    pub suggestion: Option<String>,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
        })
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {} [{}]", self.line, self.column, self.severity, self.message, self.code)
    }
}
