//! Serializes a definition, including its defaults. Parsing the result gives the same definition.

use serde_json::{Map, Value, json};

use berth_core::pipeline::model::PipelineDefinition;

pub fn write(definition: &PipelineDefinition) -> Result<String, serde_json::Error> {
    let pipeline = without_empty(serde_json::to_value(definition)?);
    // The output is JSON, which is also valid YAML.
    serde_json::to_string_pretty(&json!({ "version": 1, "pipeline": pipeline }))
}

/// Removes empty values, except `needs`: empty needs are not the same as no `needs` field.
fn without_empty(value: Value) -> Value {
    let Value::Object(fields) = value else {
        return match value {
            Value::Array(items) => Value::Array(items.into_iter().map(without_empty).collect()),
            plain => plain,
        };
    };
    let mut kept = Map::new();
    for (name, value) in fields {
        // Params are kept exactly as the author wrote them.
        let value = if name == "params" { value } else { without_empty(value) };
        if name == "needs" || name == "ephemeral_environments" || !is_empty_value(&value) {
            kept.insert(name, value);
        }
    }
    Value::Object(kept)
}

fn is_empty_value(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}
