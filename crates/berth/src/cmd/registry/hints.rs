//! Hints about likely mistakes in a registry that are not errors.

use berth_core::registry::{POLL_PAUSE_MS_MAX, POLL_PAUSE_MS_MIN, StepMetadata};
use serde_json::{Map, Value};

/// Hints about a step's metadata.
pub(super) fn metadata_hints(step: &StepMetadata) -> Vec<String> {
    let mut hints = Vec::new();
    let mut hint = |text: String| hints.push(format!("{}: {text}", step.key));
    if step.short_description.as_ref().is_none_or(|text| text.trim().is_empty()) {
        hint("no shortDescription; users choose steps by it".into());
    }
    if step.yaml_example.as_ref().is_none_or(|text| text.trim().is_empty()) {
        hint("no yamlExample; users copy it into their pipelines".into());
    }
    let no_properties = Map::new();
    let properties = step.schema.get("properties").and_then(Value::as_object).unwrap_or(&no_properties);
    if properties.is_empty() {
        hint("the schema has no params, so none are checked before the step runs".into());
    }
    let is_bare = |schema: &Value| schema.get("description").is_none_or(|text| text.as_str() == Some(""));
    for (name, schema) in properties {
        if is_bare(schema) {
            hint(format!("the param `{name}` has no description"));
        }
        let required = step.schema.get("required").and_then(Value::as_array);
        let is_required = required.is_some_and(|names| names.iter().any(|listed| listed == name));
        if is_required && schema.get("default").is_some() {
            hint(format!("the param `{name}` is required but has a default, so pipelines can omit it"));
        }
    }
    hints
}

/// Hints about params that are not in the schema, which the step ignores.
pub(super) fn param_hints(step: &StepMetadata, params: &Map<String, Value>) -> Vec<String> {
    let Some(known) = step.schema.get("properties").and_then(Value::as_object) else { return Vec::new() };
    let unknown = params.keys().filter(|name| !known.contains_key(*name));
    unknown.map(|name| format!("the param `{name}` is not in the schema; the step ignores it")).collect()
}

/// Hints about the JSON that a step call returned.
pub(super) fn answer_hints(answer: &[u8]) -> Vec<String> {
    let mut hints = Vec::new();
    let Ok(answer) = serde_json::from_slice::<Value>(answer) else { return hints };
    if answer.get("pollingState").is_some_and(|state| !state.is_object()) {
        hints
            .push("pollingState is not an object; registries written with an SDK accept nothing else".into());
    }
    let asked = answer.get("retryAfterMs").and_then(Value::as_f64);
    #[expect(clippy::cast_precision_loss, reason = "both limits are small")]
    let (least, most) = (POLL_PAUSE_MS_MIN as f64, POLL_PAUSE_MS_MAX as f64);
    if asked.is_some_and(|ms| ms < least || ms > most) {
        hints.push(format!("retryAfterMs is not between {least} and {most}, so the nearer limit is used"));
    }
    hints
}
