//! `berth pipeline`: definitions on this machine.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use anyhow::Context as _;
use berth_core::name::{CommitId, EnvName, InvalidName};
use berth_core::pipeline::{Diagnostic, Parsed, Severity, parse, schema};
use berth_server::app::{PlanFacts, plan_definition, wire_diagnostic};

use super::plan_text::plan_text;
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
    /// Show what a definition would do without a server: stages, steps, and what they are given
    Plan {
        /// The file, for example .berth/shop/pipeline.yaml
        file: PathBuf,
        /// One of its environments; through all stages when left out
        #[arg(long, value_name = "NAME", value_parser = environment)]
        environment: Option<EnvName>,
        /// What the plan is for
        #[arg(long, value_name = "ID", value_parser = commit)]
        commit: Option<CommitId>,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Print the JSON Schema of a definition, for editors
    Schema,
}

pub(crate) fn run(command: &Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Validate { file, json } => validate(file, *json),
        Command::Plan { file, environment, commit, json } => {
            let known = PlanFacts { commit: commit.clone(), ..PlanFacts::default() };
            plan(file, environment.as_ref(), known, *json)
        }
        Command::Schema => {
            say(&serde_json::to_string_pretty(&schema())?)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn validate(file: &Path, json: bool) -> anyhow::Result<ExitCode> {
    let (name, source) = read(file)?;
    let parsed = parse(&source);
    let valid = parsed.definition.is_some();
    if json {
        let diagnostics: Vec<_> = parsed.diagnostics.iter().map(wire_diagnostic).collect();
        say(&serde_json::json!({ "valid": valid, "diagnostics": diagnostics }).to_string())?;
    } else {
        tell(&parsed, &source, &name)?;
    }
    Ok(if valid { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A definition with errors has no plan: its errors are told as `validate` tells them.
fn plan(
    file: &Path,
    environment: Option<&EnvName>,
    known: PlanFacts,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let (name, source) = read(file)?;
    let parsed = parse(&source);
    let Some(definition) = &parsed.definition else { return validate(file, json) };
    let plan = plan_definition(definition, environment, known)
        .map_err(|failure| anyhow::anyhow!("cannot plan {name}: {}", failure.detail))?;
    say(&if json { serde_json::to_string(&plan)? } else { plan_text(&plan) })?;
    Ok(ExitCode::SUCCESS)
}

fn read(file: &Path) -> anyhow::Result<(String, String)> {
    let name = file.display().to_string();
    let source = std::fs::read_to_string(file).with_context(|| format!("cannot read {name}"))?;
    Ok((name, source))
}

fn environment(text: &str) -> Result<EnvName, InvalidName> {
    EnvName::parse(text)
}

fn commit(text: &str) -> Result<CommitId, InvalidName> {
    CommitId::parse(text)
}

fn tell(parsed: &Parsed, source: &str, name: &str) -> anyhow::Result<()> {
    for diagnostic in &parsed.diagnostics {
        say(&format!(
            "{}
",
            drawn(diagnostic, source, name)
        ))?;
    }
    let count = |severity| parsed.diagnostics.iter().filter(|found| found.severity == severity).count();
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    let verdict = if parsed.definition.is_some() { "valid" } else { "not valid" };
    say(&format!("{name}: {verdict} ({errors} errors, {warnings} warnings)"))
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
