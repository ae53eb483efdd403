//! Tests of the public API of `berth-definition` with complete definitions.

mod bombs;
mod checks;
mod containers;
mod expressions;
mod fixtures;
mod frame;
mod gates;
mod local_run;
mod network;
mod planning;
mod properties;
mod reference;
mod schema;

use std::fmt::Write as _;

use berth_definition::{DiagnosticSeverity, ParsedDefinition, parse};
use expect_test::Expect;

/// Formats diagnostics as a terminal would show them: the source line with the affected range underlined.
fn render_diagnostics(parsed: &ParsedDefinition) -> String {
    let mut text = String::new();
    for found in &parsed.diagnostics {
        let _ = writeln!(
            text,
            "{}[{}] {}:{} {}",
            found.severity, found.code, found.line, found.column, found.pointer
        );
        let _ = writeln!(text, "  | {}", found.source_line);
        let width = (found.end_column - found.column) as usize;
        let _ = writeln!(text, "  | {}{}", " ".repeat(found.column as usize - 1), "^".repeat(width));
        let _ = writeln!(text, "  {}", found.message);
    }
    let errors = parsed.diagnostics.iter().any(|found| found.severity == DiagnosticSeverity::Error);
    assert_eq!(parsed.definition.is_some(), !errors, "a definition is there exactly when there is no error");
    text
}

/// Formats each diagnostic on one line.
fn list_diagnostics(source: &str) -> String {
    let parsed = parse(source);
    render_diagnostics(&parsed);
    parsed.diagnostics.iter().map(|found| format!("{found}\n")).collect()
}

/// Checks the diagnostics of a complete file.
fn check_diagnostics(source: &str, expected: &Expect) {
    expected.assert_eq(&list_diagnostics(source));
}

/// Checks a pipeline given as the lines below `pipeline:`. A stage and a step are added if they are missing.
fn check_pipeline(lines: &str, expected: &Expect) {
    check_diagnostics(&pipeline_source(lines), expected);
}

/// Checks the given lines as part of a `script` step.
fn check_step(lines: &str, expected: &Expect) {
    let lines: String = lines.lines().map(|line| format!("      {line}\n")).collect();
    check_pipeline(&format!("steps:\n    - name: A\n      type: script\n{lines}"), expected);
}

fn pipeline_source(lines: &str) -> String {
    let mut text = "version: 1\npipeline:\n  name: Shop\n".to_owned();
    for line in lines.lines() {
        text.push_str(if line.starts_with(' ') { "" } else { "  " });
        text.push_str(line);
        text.push('\n');
    }
    if !lines.contains("stages:") && !lines.contains("ephemeral_environments:") {
        text.push_str("  stages: [{ name: staging }]\n");
    }
    if !lines.starts_with("steps:") && !lines.contains("\nsteps:") {
        text.push_str("  steps: [{ name: Nothing, type: dummy }]\n");
    }
    text
}
