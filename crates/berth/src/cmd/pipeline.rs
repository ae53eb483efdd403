//! `berth pipeline`: definitions on this machine.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use anyhow::Context as _;
use berth_core::pipeline::{Diagnostic, Severity, parse};
use berth_server::app::wire_diagnostic;

use super::say;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Check a definition without a server: every error, where it is, and what to write instead
    Validate {
        /// The file, for example .berth/shop/pipeline.yaml
        file: PathBuf,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(command: &Command) -> anyhow::Result<ExitCode> {
    let Command::Validate { file, json } = command;
    let name = file.display().to_string();
    let source = std::fs::read_to_string(file).with_context(|| format!("cannot read {name}"))?;
    let parsed = parse(&source);
    let valid = parsed.definition.is_some();
    if *json {
        let diagnostics: Vec<_> = parsed.diagnostics.iter().map(wire_diagnostic).collect();
        say(&serde_json::json!({ "valid": valid, "diagnostics": diagnostics }).to_string())?;
    } else {
        for diagnostic in &parsed.diagnostics {
            say(&format!(
                "{}
",
                drawn(diagnostic, &source, &name)
            ))?;
        }
        let count = |severity| parsed.diagnostics.iter().filter(|found| found.severity == severity).count();
        let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
        let verdict = if valid { "valid" } else { "not valid" };
        say(&format!("{name}: {verdict} ({errors} errors, {warnings} warnings)"))?;
    }
    Ok(if valid { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The message with the author's own line beneath it.
fn drawn(diagnostic: &Diagnostic, source: &str, name: &str) -> String {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
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
