//! Parses, checks and hashes pipeline definitions.

use aws_lc_rs::digest;
use berth_api::pipeline as wire;
use berth_api::problem::{Code, InputError, InputErrorCode, ProblemDetails};
use berth_core::name::Slug;
use berth_core::pipeline::PipelineDefinition;
use berth_core::pipeline::state::{CheckedDefinition, DefinitionOutline};
use berth_definition::{DefinitionDiagnostic, DiagnosticSeverity, parse};

use crate::error::EngineError;
use crate::vault::hex;

/// Path segments below `/pipelines` that the API uses for itself, so they cannot be pipeline slugs.
const RESERVED_SLUGS: &[&str] = &["validate", "plan"];

pub fn check_slug(slug: &Slug) -> Result<(), EngineError> {
    if RESERVED_SLUGS.contains(&slug.as_str()) {
        let detail = "is reserved by the API; choose another".to_owned();
        let text = format!("/slug {detail}");
        let error = InputError { pointer: "/slug".to_owned(), code: InputErrorCode::Invalid, detail };
        return Err(ProblemDetails::new(Code::InvalidRequest, text).with_errors(vec![error]).into());
    }
    Ok(())
}

/// Parses and hashes a definition. Returns an error if the definition is invalid.
pub fn check_definition(source: &str) -> Result<CheckedDefinition, EngineError> {
    let definition = parse_definition(source)?;
    let hash = format!("sha256:{}", hex(digest::digest(&digest::SHA256, source.as_bytes()).as_ref()));
    let outline = DefinitionOutline::from_definition(&definition);
    Ok(CheckedDefinition { hash, outline, environments: definition.ephemeral_environments })
}

/// Parses a definition. The error lists all diagnostics.
pub fn parse_definition(source: &str) -> Result<PipelineDefinition, EngineError> {
    let parsed = parse(source);
    parsed.definition.ok_or_else(|| {
        let errors =
            parsed.diagnostics.iter().filter(|found| found.severity == DiagnosticSeverity::Error).count();
        let text = format!("the definition has {errors} {}", if errors == 1 { "error" } else { "errors" });
        let diagnostics: Vec<_> = parsed.diagnostics.iter().map(diagnostic_to_api).collect();
        let listed = serde_json::to_value(diagnostics).unwrap_or_default();
        ProblemDetails::new(Code::PipelineInvalid, text).with_member("diagnostics", listed).into()
    })
}

/// Converts a diagnostic to the API type.
pub fn diagnostic_to_api(found: &DefinitionDiagnostic) -> wire::Diagnostic {
    wire::Diagnostic {
        severity: match found.severity {
            DiagnosticSeverity::Error => wire::Severity::Error,
            DiagnosticSeverity::Warning => wire::Severity::Warning,
        },
        code: found.code.to_owned(),
        message: found.message.clone(),
        pointer: found.pointer.clone(),
        line: found.line,
        column: found.column,
        end_column: found.end_column,
        source_line: found.source_line.clone(),
        suggestion: found.suggestion.clone(),
    }
}
