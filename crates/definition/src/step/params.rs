//! Validates params against the JSON Schema of a step type and explains the problems to users.
//!
//! Some schemas come from step registries and are untrusted. So compiling a schema never accesses files or the network,
//! and patterns run on a regex engine that takes linear time.

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{JsonType, PatternOptions, ValidationError, Validator};
use serde_json::Value;

use berth_core::access::Role;
use berth_core::name::Email;
use berth_core::pipeline::image::ImageReference;
use berth_core::pipeline::limits::PATH_BYTES_MAX;
use berth_core::pipeline::seconds::DurationSeconds;
use berth_core::wording::{hint, join_words, quote};

pub const SCHEMA_BYTES_MAX: usize = 256 * 1024;
pub const REGEX_COMPILED_BYTES_MAX: usize = 1024 * 1024;
/// Maximum number of problems reported per step; more are reported once these are fixed.
pub const PARAM_PROBLEMS_MAX: usize = 50;

/// The problem code for a param that the schema does not define.
pub const UNKNOWN_PARAM: &str = "unknown_param";
/// Berth's own formats, which schemas may use.
const FORMAT_DURATION: &str = "berth-duration";
const FORMAT_APPROVER: &str = "berth-approver";
const FORMAT_URL: &str = "berth-url";
const FORMAT_IMAGE_TAG: &str = "berth-image-tag";
const FORMAT_PATH: &str = "berth-path";

#[derive(Debug)]
pub struct ParamsSchema {
    validator: Validator,
    schema: Value,
}

/// Why a schema cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the schema is refused: {0}")]
pub struct SchemaRefused(String);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParamProblem {
    /// JSON pointer relative to `params`.
    pub pointer: String,
    pub code: &'static str,
    pub message: String,
    pub suggestion: Option<String>,
}

impl ParamsSchema {
    pub fn compile(text: &str) -> Result<Self, SchemaRefused> {
        if text.len() > SCHEMA_BYTES_MAX {
            return Err(SchemaRefused(format!("it is longer than {SCHEMA_BYTES_MAX} bytes")));
        }
        let schema: Value = serde_json::from_str(text).map_err(|error| SchemaRefused(error.to_string()))?;
        let patterns = PatternOptions::regex()
            .size_limit(REGEX_COMPILED_BYTES_MAX)
            .dfa_size_limit(REGEX_COMPILED_BYTES_MAX);
        let validator = jsonschema::options()
            .offline()
            .with_pattern_options(patterns)
            .should_validate_formats(true)
            .with_format(FORMAT_DURATION, |text: &str| {
                DurationSeconds::parse(text).is_ok_and(|length| length.as_secs() > 0)
            })
            .with_format(FORMAT_APPROVER, |text: &str| {
                text.parse::<Role>().is_ok() || Email::parse(text).is_ok()
            })
            .with_format(FORMAT_URL, is_url)
            .with_format(FORMAT_IMAGE_TAG, |text: &str| ImageReference::parse_destination(text).is_ok())
            .with_format(FORMAT_PATH, is_inside_workspace)
            .build(&schema)
            .map_err(|error| SchemaRefused(error.to_string()))?;
        Ok(Self { validator, schema })
    }

    /// All problems in `params`. A string for which `is_open` returns true contains an expression, so its value is not
    /// known yet, and it is accepted whatever type is expected.
    pub fn check(&self, params: &Value, is_open: impl Fn(&str) -> bool) -> Vec<ParamProblem> {
        let open = |error: &ValidationError<'_>| match params.pointer(error.instance_path().as_str()) {
            Some(Value::String(text)) => is_open(text),
            _ => false,
        };
        let errors = self.validator.iter_errors(params).filter(|error| !open(error));
        errors.take(PARAM_PROBLEMS_MAX).flat_map(|error| self.explain(&error)).collect()
    }

    fn explain(&self, error: &ValidationError<'_>) -> Vec<ParamProblem> {
        let pointer = error.instance_path().as_str().to_owned();
        let problem = |code, message: String| {
            vec![ParamProblem { pointer: pointer.clone(), code, message, suggestion: None }]
        };
        let shown = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        match error.kind() {
            ValidationErrorKind::AdditionalProperties { unexpected } => {
                unexpected.iter().map(|name| self.unknown_param(&pointer, name)).collect()
            }
            ValidationErrorKind::Required { property } => {
                problem("missing_param", format!("the param {} is missing", quote(&shown(property))))
            }
            ValidationErrorKind::Type { kind } => {
                let kinds = match kind {
                    TypeKind::Single(kind) => in_yaml_words(*kind).to_owned(),
                    TypeKind::Multiple(kinds) => join_words(kinds.iter().map(in_yaml_words), "or"),
                };
                let found = describe_value(error.instance());
                problem("wrong_type", format!("expected {kinds}, found {found}"))
            }
            ValidationErrorKind::Enum { options } => {
                let options: Vec<String> = options.as_array().into_iter().flatten().map(shown).collect();
                let given = error.instance().as_str().unwrap_or_default();
                let (hint, suggestion) = hint(given, options.iter().map(String::as_str));
                let message = format!("{} is not known here{hint}", quote(&shown(error.instance())));
                vec![ParamProblem { pointer, code: "unknown_value", message, suggestion }]
            }
            ValidationErrorKind::Minimum { limit } => {
                problem("out_of_range", format!("must be at least {limit}"))
            }
            ValidationErrorKind::Maximum { limit } => {
                problem("out_of_range", format!("must be at most {limit}"))
            }
            ValidationErrorKind::MinLength { .. } | ValidationErrorKind::MinItems { .. } => {
                problem("out_of_range", "must not be empty".into())
            }
            ValidationErrorKind::MaxLength { limit } => {
                problem("out_of_range", format!("must be at most {limit} characters"))
            }
            ValidationErrorKind::MaxItems { limit } => {
                problem("out_of_range", format!("must hold at most {limit} items"))
            }
            ValidationErrorKind::Format { format } => match format.as_str() {
                FORMAT_DURATION => {
                    problem("bad_duration", "must be a duration like 30s, 10m, 24h or 1h30m".into())
                }
                FORMAT_APPROVER => problem(
                    "unknown_value",
                    "must be a role (viewer, deployer, admin, owner) or an e-mail address".into(),
                ),
                FORMAT_IMAGE_TAG => {
                    let text = error.instance().as_str().unwrap_or_default();
                    let why = ImageReference::parse_destination(text)
                        .map_or_else(|why| why.to_string(), |_| String::new());
                    problem("bad_image", format!("{} {why}", quote(text)))
                }
                FORMAT_PATH => {
                    problem("bad_path", "must be a path inside the workspace, like `services/shop`".into())
                }
                FORMAT_URL => problem("bad_url", "must be a URL that begins with http:// or https://".into()),
                _ => problem("bad_param", format!("must be of the format {}", quote(format))),
            },
            ValidationErrorKind::OneOfNotValid { .. } | ValidationErrorKind::OneOfMultipleValid { .. } => {
                // In Berth's schemas, `$comment` contains a message for users that names the alternatives.
                let comment = self.schema["$comment"].as_str().filter(|_| pointer.is_empty());
                problem(
                    "bad_param",
                    comment.unwrap_or("must match exactly one of the alternatives").to_owned(),
                )
            }
            // The library's message contains the value, which may be long, so the message is truncated.
            _ => problem("bad_param", quote(&error.to_string()).replace('`', "")),
        }
    }

    fn unknown_param(&self, parent: &str, name: &str) -> ParamProblem {
        let known = self.schema["properties"].as_object().filter(|_| parent.is_empty());
        let (hint, suggestion) = hint(name, known.into_iter().flatten().map(|(name, _)| name.as_str()));
        let pointer = format!("{parent}/{}", name.replace('~', "~0").replace('/', "~1"));
        ParamProblem {
            pointer,
            code: UNKNOWN_PARAM,
            message: format!("unknown param {}{hint}", quote(name)),
            suggestion,
        }
    }
}

fn in_yaml_words(kind: JsonType) -> &'static str {
    match kind {
        JsonType::String => "text",
        JsonType::Integer => "a whole number",
        JsonType::Number => "a number",
        JsonType::Boolean => "`true` or `false`",
        JsonType::Array => "a list",
        JsonType::Object => "a mapping",
        JsonType::Null => "nothing",
    }
}

fn describe_value(value: &Value) -> String {
    match value {
        Value::Null => "nothing".into(),
        Value::Bool(value) => format!("`{value}`"),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) => format!("the text {}", quote(text)),
        Value::Array(_) => "a list".into(),
        Value::Object(_) => "a mapping".into(),
    }
}

/// Whether a path stays inside the workspace, as far as its text tells.
pub fn is_inside_workspace(text: &str) -> bool {
    let parts = || text.split('/');
    !text.starts_with(['/', '-']) && text.len() <= PATH_BYTES_MAX && parts().all(|part| part != "..")
}

fn is_url(text: &str) -> bool {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'))
        && !text.chars().any(|c| c.is_whitespace() || c.is_control())
}

/// Test helper: the problems in these params, one per line.
#[cfg(test)]
pub(super) fn findings(spec: &super::StepSpec, params: &Value) -> String {
    let schema = spec.params().expect("a test compiles every schema");
    let lines = schema.check(params, |text| text.contains("${{"));
    let lines = lines.iter().map(|found| format!("{} {}: {}", found.pointer, found.code, found.message));
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn schema_with_external_reference_is_refused_without_fetching() {
        for reference in
            ["http://127.0.0.1:9/s.json", "https://schema.test/s.json", "file:///etc/passwd", "other.json"]
        {
            let schema = json!({ "type": "object", "properties": { "a": { "$ref": reference } } });
            assert!(ParamsSchema::compile(&schema.to_string()).is_err(), "{reference} was followed");
        }
        let inside =
            json!({ "$defs": { "a": { "type": "string" } }, "properties": { "a": { "$ref": "#/$defs/a" } } });
        assert!(ParamsSchema::compile(&inside.to_string()).is_ok());
    }

    #[test]
    fn invalid_or_oversized_schema_is_refused() {
        for schema in [
            "",
            "not json",
            "[]",
            r#"{"type":"nonsense"}"#,
            r#"{"pattern":"("}"#,
            r#"{"pattern":"(a{1000}){1000}"}"#,
        ] {
            assert!(ParamsSchema::compile(schema).is_err(), "{schema} was compiled");
        }
        assert!(ParamsSchema::compile(&"[".repeat(100_000)).is_err());
        assert!(ParamsSchema::compile(&" ".repeat(SCHEMA_BYTES_MAX + 1)).is_err());
    }

    #[test]
    fn value_with_expression_passes_any_type_check() {
        let schema = ParamsSchema::compile(r#"{"properties":{"n":{"type":"integer","minimum":3}}}"#)
            .expect("compiles");
        let is_open = |text: &str| text.contains("${{");
        assert_eq!(schema.check(&json!({ "n": "${{ vars.n }}" }), is_open), vec![]);
        assert_eq!(schema.check(&json!({ "n": "three" }), is_open).len(), 1);
        assert_eq!(schema.check(&json!({ "n": 2 }), is_open)[0].message, "must be at least 3");
    }
}
