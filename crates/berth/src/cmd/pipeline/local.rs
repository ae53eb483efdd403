//! Validates and plans definitions without a server.

use std::io::IsTerminal as _;
use std::path::Path;
use std::process::ExitCode;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use anyhow::Context as _;
use berth_core::name::{CommitId, EnvName, InvalidName};
use berth_definition::{DefinitionDiagnostic, DiagnosticSeverity, ParsedDefinition, parse, schema};
use berth_engine::definitions::diagnostic_to_api as wire_diagnostic;
use berth_server::app::{PlanFacts, plan_definition};

use super::plan_text::render_plan;
use crate::output::{CommandOutput, print_line};

pub(super) fn print_schema() -> anyhow::Result<ExitCode> {
    print_line(&serde_json::to_string_pretty(&schema())?)?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn is_valid(source: &str) -> bool {
    parse(source).definition.is_some()
}

pub(in crate::cmd) fn validate(file: &Path, out: &CommandOutput) -> anyhow::Result<ExitCode> {
    let (name, source) = read_definition(file)?;
    let parsed = parse(&source);
    let valid = parsed.definition.is_some();
    if out.json {
        let diagnostics: Vec<_> = parsed.diagnostics.iter().map(wire_diagnostic).collect();
        out.print_json(&serde_json::json!({ "valid": valid, "diagnostics": diagnostics }))?;
    } else {
        print_diagnostics(&parsed, &source, &name)?;
    }
    Ok(if valid { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints the plan, or the errors if the definition is invalid.
pub(super) fn print_plan(
    file: &Path,
    environment: Option<&EnvName>,
    known: PlanFacts,
    out: &CommandOutput,
) -> anyhow::Result<ExitCode> {
    let (name, source) = read_definition(file)?;
    let parsed = parse(&source);
    let Some(definition) = &parsed.definition else { return validate(file, out) };
    let plan = plan_definition(definition, environment, known)
        .map_err(|failure| anyhow::anyhow!("cannot plan {name}: {}", failure.detail))?;
    out.print_reply(&serde_json::to_value(&plan)?, || render_plan(&plan))?;
    Ok(ExitCode::SUCCESS)
}

pub(in crate::cmd) fn read_definition(file: &Path) -> anyhow::Result<(String, String)> {
    let name = file.display().to_string();
    let source = std::fs::read_to_string(file).with_context(|| format!("cannot read {name}"))?;
    Ok((name, source))
}

pub(super) fn parse_environment(text: &str) -> Result<EnvName, InvalidName> {
    EnvName::parse(text)
}

pub(super) fn parse_commit(text: &str) -> Result<CommitId, InvalidName> {
    CommitId::parse(text)
}

fn print_diagnostics(parsed: &ParsedDefinition, source: &str, name: &str) -> anyhow::Result<()> {
    for diagnostic in &parsed.diagnostics {
        print_line(&format!(
            "{}
",
            render_diagnostic(diagnostic, source, name)
        ))?;
    }
    let count = |severity| parsed.diagnostics.iter().filter(|found| found.severity == severity).count();
    let (errors, warnings) = (count(DiagnosticSeverity::Error), count(DiagnosticSeverity::Warning));
    let verdict = if parsed.definition.is_some() { "valid" } else { "invalid" };
    print_line(&format!("{name}: {verdict} ({errors} errors, {warnings} warnings)"))
}

/// Renders a diagnostic together with the source line it refers to.
fn render_diagnostic(diagnostic: &DefinitionDiagnostic, source: &str, name: &str) -> String {
    let level = match diagnostic.severity {
        DiagnosticSeverity::Error => Level::ERROR,
        DiagnosticSeverity::Warning => Level::WARNING,
    };
    let line_start: usize =
        source.split_inclusive('\n').take(diagnostic.line as usize - 1).map(str::len).sum();
    let line = source[line_start..].lines().next().unwrap_or_default();
    let byte = |column: u32| line.char_indices().nth(column as usize - 1).map_or(line.len(), |(at, _)| at);
    let span = line_start + byte(diagnostic.column)..line_start + byte(diagnostic.end_column);
    let snippet = Snippet::source(source).path(name).annotation(AnnotationKind::Primary.span(span));
    let report = &[level.primary_title(&diagnostic.message).element(snippet)];
    let renderer = if std::io::stdout().is_terminal() { Renderer::styled() } else { Renderer::plain() };
    renderer.render(report).to_string()
}
