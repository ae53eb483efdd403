//! A problem in a definition, with its position and, if known, a suggested fix.

use std::fmt;

use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DiagnosticSeverity {
    Error,
    Warning,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DefinitionDiagnostic {
    pub severity: DiagnosticSeverity,
    /// Stable identifier of the kind of problem, in snake_case.
    pub code: &'static str,
    /// Short text for users that says what to do.
    pub message: String,
    /// JSON pointer to the value, such as `/pipeline/steps/0/timeout`.
    pub pointer: String,
    /// Counts from 1.
    pub line: u32,
    /// Counts from 1, in characters.
    pub column: u32,
    /// The column after the last affected character, on the same line.
    pub end_column: u32,
    /// The source line, truncated if very long.
    pub source_line: String,
    /// The text to replace the affected range with, if known.
    pub suggestion: Option<String>,
}

impl fmt::Display for DiagnosticSeverity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DiagnosticSeverity::Error => "error",
            DiagnosticSeverity::Warning => "warning",
        })
    }
}

impl fmt::Display for DefinitionDiagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {} [{}]", self.line, self.column, self.severity, self.message, self.code)
    }
}
