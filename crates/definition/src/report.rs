//! Collects problems with byte ranges and converts them to diagnostics with lines and columns.

use std::cell::RefCell;
use std::ops::Range;

use berth_core::pipeline::limits::{DIAGNOSTICS_MAX, SOURCE_LINE_CHARS_MAX};
use berth_core::wording::{hint, truncate};

use crate::diagnostic::{DefinitionDiagnostic, DiagnosticSeverity};

/// The source text and the offsets at which its lines start.
pub(super) struct SourceText<'a> {
    pub(super) text: &'a str,
    line_starts: Vec<usize>,
}

/// A problem that has no position yet.
#[derive(Debug, Clone)]
pub(super) struct DefinitionProblem {
    pub(super) severity: DiagnosticSeverity,
    pub(super) code: &'static str,
    pub(super) message: String,
    pub(super) suggestion: Option<String>,
}

struct LocatedProblem {
    problem: DefinitionProblem,
    pointer: String,
    range: Range<usize>,
}

pub(super) struct ProblemReport<'a> {
    source: &'a SourceText<'a>,
    found: RefCell<Vec<LocatedProblem>>,
}

impl DefinitionProblem {
    pub(super) fn error(code: &'static str, message: impl Into<String>) -> Self {
        Self { severity: DiagnosticSeverity::Error, code, message: message.into(), suggestion: None }
    }

    pub(super) fn warning(code: &'static str, message: impl Into<String>) -> Self {
        Self { severity: DiagnosticSeverity::Warning, code, message: message.into(), suggestion: None }
    }

    /// Appends a "did you mean" hint or the list of valid values.
    pub(super) fn with_hint<'k>(
        mut self,
        report: &ProblemReport<'_>,
        word: &str,
        known: impl IntoIterator<Item = &'k str>,
    ) -> Self {
        // Further problems are not shown, so their hints need not be computed; this keeps malicious files cheap.
        if report.found.borrow().len() <= DIAGNOSTICS_MAX {
            let (hint, suggestion) = hint(word, known);
            self.message.push_str(&hint);
            self.suggestion = suggestion.or(self.suggestion);
        }
        self
    }

    pub(super) fn with_suggestion(mut self, text: impl Into<String>) -> Self {
        self.suggestion = Some(text.into());
        self
    }
}

impl<'a> SourceText<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let after_breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        Self { text, line_starts: std::iter::once(0).chain(after_breaks).collect() }
    }

    pub(super) fn slice(&self, range: &Range<usize>) -> &'a str {
        self.text.get(range.clone()).unwrap_or_default()
    }

    /// The line number, from 1, and the byte range of the line without its line break.
    fn line_at(&self, byte: usize) -> (usize, Range<usize>) {
        let number = self.line_starts.partition_point(|start| *start <= byte).max(1);
        let start = self.line_starts[number - 1];
        let end = self.line_starts.get(number).map_or(self.text.len(), |next| next - 1);
        let line = self.text.get(start..end).unwrap_or_default();
        (number, start..start + line.trim_end_matches('\r').len())
    }

    fn chars_between(&self, from: usize, to: usize) -> usize {
        self.slice(&(from..to)).chars().count()
    }

    /// The nearest character boundary at or before `byte`.
    fn boundary(&self, byte: usize) -> usize {
        (0..=byte.min(self.text.len())).rev().find(|at| self.text.is_char_boundary(*at)).unwrap_or(0)
    }
}

impl<'a> ProblemReport<'a> {
    pub(super) fn new(source: &'a SourceText<'a>) -> Self {
        Self { source, found: RefCell::new(Vec::new()) }
    }

    pub(super) fn source(&self) -> &'a SourceText<'a> {
        self.source
    }

    pub(super) fn add(&self, pointer: &str, range: &Range<usize>, problem: DefinitionProblem) {
        self.found.borrow_mut().push(LocatedProblem {
            problem,
            pointer: pointer.to_owned(),
            range: range.clone(),
        });
    }

    pub(super) fn has_errors(&self) -> bool {
        self.found.borrow().iter().any(|found| found.problem.severity == DiagnosticSeverity::Error)
    }

    /// Returns the diagnostics sorted by position. If there are too many, warnings are dropped before errors.
    pub(super) fn finish(self) -> Vec<DefinitionDiagnostic> {
        let mut found = self.found.into_inner();
        found.sort_by(|a, b| sort_key(a).cmp(&sort_key(b)));
        found.dedup_by(|a, b| sort_key(a) == sort_key(b));
        if found.len() > DIAGNOSTICS_MAX {
            found.sort_by_key(|found| found.problem.severity);
            found.truncate(DIAGNOSTICS_MAX);
            found.sort_by(|a, b| sort_key(a).cmp(&sort_key(b)));
        }
        found
            .into_iter()
            .map(|found| diagnostic(self.source, found.pointer, &found.range, found.problem))
            .collect()
    }
}

/// Key for sorting and removing duplicates: a value that is read several times through YAML aliases is reported once.
fn sort_key(found: &LocatedProblem) -> (usize, usize, DiagnosticSeverity, &str, &str) {
    let problem = &found.problem;
    (found.range.start, found.range.end, problem.severity, problem.code, &problem.message)
}

/// Converts a problem to a diagnostic with line and column.
pub(super) fn diagnostic(
    source: &SourceText<'_>,
    pointer: String,
    range: &Range<usize>,
    problem: DefinitionProblem,
) -> DefinitionDiagnostic {
    let start = source.boundary(range.start);
    let (line, whole) = source.line_at(start);
    let start = start.min(whole.end);
    // If the range spans several lines, only the part on the first line is shown.
    let end = source.boundary(range.end).clamp(start, whole.end);
    let column = 1 + source.chars_between(whole.start, start);
    let width = source.chars_between(start, end).max(1);
    DefinitionDiagnostic {
        severity: problem.severity,
        code: problem.code,
        message: problem.message,
        pointer,
        line: u32::try_from(line).unwrap_or(u32::MAX),
        column: u32::try_from(column).unwrap_or(u32::MAX),
        end_column: u32::try_from(column + width).unwrap_or(u32::MAX),
        source_line: truncate(source.slice(&whole), SOURCE_LINE_CHARS_MAX),
        suggestion: problem.suggestion,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn diagnostic_columns_count_characters_and_end_at_line_end() {
        let source = SourceText::new("a: b\r\nü: 'cd\n  e'\n");
        let place = |range: Range<usize>| {
            let found = diagnostic(&source, String::new(), &range, DefinitionProblem::error("x", "y"));
            (found.line, found.column, found.end_column, found.source_line)
        };
        assert_eq!(place(3..4), (1, 4, 5, "a: b".to_owned()));
        assert_eq!(place(10..18), (2, 4, 7, "ü: 'cd".to_owned()));
        // Inside a character, past the end, and on an empty line.
        assert_eq!(place(7..7), (2, 1, 2, "ü: 'cd".to_owned()));
        assert_eq!(place(99..100), (4, 1, 2, String::new()));
    }
}
