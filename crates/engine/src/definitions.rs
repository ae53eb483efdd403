//! Checks and hashes pipeline definitions.

use aws_lc_rs::digest;
use berth_api::pipeline as wire;
use berth_api::problem::{Code, InputError, InputErrorCode, Problem};
use berth_core::name::Slug;
use berth_core::pipeline::Definition;
use berth_core::pipeline::state::{Defined, Outline};
use berth_definition::{Diagnostic, Severity, parse};

use crate::error::EngineError;
use crate::vault::hex;

/// Path segments below `/pipelines` that are not slugs.
const RESERVED_SLUGS: &[&str] = &["validate", "plan"];

pub fn check_slug(slug: &Slug) -> Result<(), EngineError> {
    if RESERVED_SLUGS.contains(&slug.as_str()) {
        let detail = "is reserved by the API; choose another".to_owned();
        let text = format!("/slug {detail}");
        let error = InputError { pointer: "/slug".to_owned(), code: InputErrorCode::Invalid, detail };
        return Err(Problem::new(Code::InvalidRequest, text).with_errors(vec![error]).into());
    }
    Ok(())
}

/// Parses and hashes a definition. Fails if it has errors.
pub fn checked_definition(source: &str) -> Result<Defined, EngineError> {
    let definition = definition_of(source)?;
    let hash = format!("sha256:{}", hex(digest::digest(&digest::SHA256, source.as_bytes()).as_ref()));
    let outline = Outline::of(&definition);
    Ok(Defined { hash, outline, environments: definition.ephemeral_environments })
}

/// Parses a definition. The error lists all diagnostics.
pub fn definition_of(source: &str) -> Result<Definition, EngineError> {
    let parsed = parse(source);
    parsed.definition.ok_or_else(|| {
        let errors = parsed.diagnostics.iter().filter(|found| found.severity == Severity::Error).count();
        let text = format!("the definition has {errors} {}", if errors == 1 { "error" } else { "errors" });
        let diagnostics: Vec<_> = parsed.diagnostics.iter().map(diagnostic).collect();
        let listed = serde_json::to_value(diagnostics).unwrap_or_default();
        Problem::new(Code::PipelineInvalid, text).with("diagnostics", listed).into()
    })
}

/// Converts a diagnostic to the API type.
pub fn diagnostic(found: &Diagnostic) -> wire::Diagnostic {
    wire::Diagnostic {
        severity: match found.severity {
            Severity::Error => wire::Severity::Error,
            Severity::Warning => wire::Severity::Warning,
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
