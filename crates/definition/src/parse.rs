//! Entry points that parse and check a definition and collect all diagnostics.

use berth_core::pipeline::limits::PIPELINE_BYTES_MAX;
use berth_core::pipeline::model::PipelineDefinition;
use berth_core::registry::AvailableSteps;

use crate::check;
use crate::cursor::NodeCursor;
use crate::diagnostic::{DefinitionDiagnostic, DiagnosticSeverity};
use crate::read;
use crate::report::{self, DefinitionProblem, ProblemReport, SourceText};
use crate::tree::{self, control_message, is_forbidden};

#[derive(Debug, Clone, PartialEq)]
pub struct ParsedDefinition {
    /// Present if and only if no diagnostic is an error.
    pub definition: Option<PipelineDefinition>,
    /// Sorted by position, at most `DIAGNOSTICS_MAX`.
    pub diagnostics: Vec<DefinitionDiagnostic>,
}

/// Parses and checks a definition in YAML or JSON. Custom steps are not checked, because their schemas are on the
/// server.
pub fn parse(source: &str) -> ParsedDefinition {
    parse_with(source, None)
}

/// Like [`parse`], but also checks custom steps against `offers`.
pub fn parse_with(source: &str, offers: Option<&AvailableSteps>) -> ParsedDefinition {
    let source = SourceText::new(source);
    let report = ProblemReport::new(&source);
    let definition = read_source(&report, offers).filter(|_| !report.has_errors());
    ParsedDefinition { definition, diagnostics: report.finish() }
}

/// Turns problems found elsewhere into diagnostics, each at the value that its JSON pointer names. Parses the source
/// only once.
pub fn diagnostics_at(
    source: &str,
    severity: DiagnosticSeverity,
    code: &'static str,
    findings: Vec<(String, String)>,
) -> Vec<DefinitionDiagnostic> {
    let source = SourceText::new(source);
    let report = ProblemReport::new(&source);
    let root = within_bounds(&report).and_then(|()| tree::read(&report));
    let place = |pointer: &str| {
        root.as_deref().map(|root| NodeCursor::root(&report, root).descend(pointer).node.range.clone())
    };
    findings
        .into_iter()
        .map(|(pointer, message)| {
            let range = place(&pointer).unwrap_or(0..0);
            let problem = DefinitionProblem { severity, code, message, suggestion: None };
            report::diagnostic(&source, pointer, &range, problem)
        })
        .collect()
}

fn read_source(report: &ProblemReport<'_>, offers: Option<&AvailableSteps>) -> Option<PipelineDefinition> {
    within_bounds(report)?;
    let root = tree::read(report)?;
    let draft = read::read_document(&NodeCursor::root(report, &root))?;
    check::check_all(&draft, offers);
    Some(draft.into_definition())
}

/// Checks that must pass before the YAML parser runs.
fn within_bounds(report: &ProblemReport<'_>) -> Option<()> {
    let text = report.source().text;
    if text.len() > PIPELINE_BYTES_MAX {
        let message =
            format!("the definition has {} bytes, but at most {PIPELINE_BYTES_MAX} are allowed", text.len());
        report.add("", &(0..0), DefinitionProblem::error("too_large", message));
        return None;
    }
    if let Some((at, c)) = text.char_indices().find(|(_, c)| is_forbidden(*c)) {
        report.add(
            "",
            &(at..at + c.len_utf8()),
            DefinitionProblem::error("control_character", control_message(c)),
        );
        return None;
    }
    Some(())
}
