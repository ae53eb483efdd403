//! Metadata of custom steps in registries, including the schemas of their params.

use berth_core::registry::{AvailableStep, StepMetadata, step_key};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::step::{ParamProblem, ParamsSchema, SchemaRefused};

pub const METADATA_BYTES_MAX: usize = 4 * 1024 * 1024;
pub const REGISTRY_STEPS_MAX: usize = 200;
const TEXT_CHARS_MAX: usize = 20_000;

#[derive(Deserialize)]
struct MetadataResponse {
    status: String,
    error: Option<Value>,
    data: Option<MetadataList>,
}

#[derive(Deserialize)]
struct MetadataList {
    metadata: Vec<RawStepMetadata>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawStepMetadata {
    step_type: String,
    name: Option<String>,
    short_description: Option<String>,
    long_description: Option<String>,
    yaml_example: Option<String>,
    /// Older registries call this field `jsonSchema`.
    #[serde(alias = "jsonSchema")]
    params_json_schema: Option<Value>,
}

/// Parses a registry's response to a metadata request. The error is shown to users.
pub fn parse_metadata(bytes: &[u8]) -> Result<Vec<StepMetadata>, String> {
    if bytes.len() > METADATA_BYTES_MAX {
        return Err(format!("its metadata is longer than {METADATA_BYTES_MAX} bytes"));
    }
    let written: MetadataResponse =
        serde_json::from_slice(bytes).map_err(|error| format!("its metadata cannot be read: {error}"))?;
    if written.status != "SUCCESS" {
        let why = written.error.map(|error| format!(": {error}")).unwrap_or_default();
        return Err(format!("it responded with {:?} when asked for its metadata{why}", written.status));
    }
    let found = written.data.map(|data| data.metadata).unwrap_or_default();
    if found.is_empty() {
        return Err("it offers no steps".into());
    }
    if found.len() > REGISTRY_STEPS_MAX {
        return Err(format!("it offers {} steps, but at most {REGISTRY_STEPS_MAX} are kept", found.len()));
    }
    let mut steps: Vec<StepMetadata> = Vec::with_capacity(found.len());
    for step in found {
        let step = read_step(step)?;
        if let Some(twin) = steps.iter().find(|twin| twin.key == step.key) {
            return Err(format!(
                "its step types {:?} and {:?} are the same to a definition ({}); give one another name",
                twin.step_type, step.step_type, step.key
            ));
        }
        steps.push(step);
    }
    steps.sort_by(|a, b| a.key.cmp(&b.key));
    Ok(steps)
}

/// Compiles the schema of a custom step's params. A param with a default is optional, even if the schema requires it.
pub fn params_schema(schema: &Value) -> Result<ParamsSchema, SchemaRefused> {
    let mut relaxed = schema.clone();
    relax(&mut relaxed);
    ParamsSchema::compile(&relaxed.to_string())
}

/// All problems in the params of a custom step that can be found before it runs.
pub(crate) fn check_params(offer: &AvailableStep, params: &Map<String, Value>) -> Vec<ParamProblem> {
    match params_schema(&offer.schema) {
        Ok(schema) => schema.check(&Value::Object(params.clone()), |text| text.contains("${{")),
        Err(refused) => vec![ParamProblem {
            pointer: String::new(),
            code: "bad_schema",
            message: refused.to_string(),
            suggestion: None,
        }],
    }
}

fn read_step(step: RawStepMetadata) -> Result<StepMetadata, String> {
    let own = step.step_type;
    let Some(key) = step_key(&own) else {
        return Err(format!(
            "its step type {own:?} cannot be named in a definition; use letters, digits, -, _, . and :"
        ));
    };
    let schema = step.params_json_schema.unwrap_or_else(|| serde_json::json!({"type": "object"}));
    let text = |text: Option<String>| text.map(|text| text.chars().take(TEXT_CHARS_MAX).collect());
    let step = StepMetadata {
        key,
        name: text(step.name),
        short_description: text(step.short_description),
        long_description: text(step.long_description),
        yaml_example: text(step.yaml_example),
        schema,
        step_type: own,
    };
    params_schema(&step.schema)
        .map_err(|refused| format!("its step type {:?}: {refused}", step.step_type))?;
    Ok(step)
}

/// Removes properties that have a default from `required`. Schema generators list them there because they describe the
/// output of a parser, in which defaults are filled in.
fn relax(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(relax),
        Value::Object(members) => {
            members.values_mut().for_each(relax);
            let has_default = |name: &Value| {
                let property = name.as_str().and_then(|name| members.get("properties")?.get(name));
                property.is_some_and(|property| property.get("default").is_some())
            };
            let Some(Value::Array(required)) = members.get("required") else { return };
            let kept: Vec<Value> = required.iter().filter(|name| !has_default(name)).cloned().collect();
            members.insert("required".into(), Value::Array(kept));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "tests write their steps in place")]
    fn parse_steps(steps: Value) -> Result<Vec<StepMetadata>, String> {
        parse_metadata(json!({"status": "SUCCESS", "data": {"metadata": steps}}).to_string().as_bytes())
    }

    #[test]
    fn metadata_accepts_new_and_old_field_names() {
        let schema = json!({"type": "object", "properties": {"target": {"type": "string"}}});
        let steps = parse_steps(json!([
            {"stepType": "CUSTOM:SCRIPT:DEPLOY", "name": "Deploy", "paramsJsonSchema": schema},
            {"stepType": "Announce", "jsonSchema": schema},
            {"stepType": "bare"},
        ]))
        .expect("metadata");
        let keys: Vec<&str> = steps.iter().map(|step| step.key.as_str()).collect();
        assert_eq!(keys, ["announce", "bare", "script-deploy"]);
        assert_eq!(steps[0].schema, schema);
        assert_eq!(steps[2].step_type, "CUSTOM:SCRIPT:DEPLOY");
    }

    #[test]
    fn invalid_metadata_is_rejected_with_reason() {
        let told = |steps| parse_steps(steps).expect_err("refused");
        assert_eq!(told(json!([])), "it offers no steps");
        assert!(
            told(json!([{"stepType": "CUSTOM:Deploy"}, {"stepType": "deploy"}])).contains("are the same")
        );
        assert!(told(json!([{"stepType": "a b"}])).contains("cannot be named"));
        let remote = json!({"$ref": "http://127.0.0.1:1/schema.json"});
        assert!(
            told(json!([{"stepType": "a", "paramsJsonSchema": remote}])).contains("the schema is refused")
        );
        let failed = parse_metadata(br#"{"status":"FAILED","error":"no"}"#).expect_err("failed");
        assert_eq!(failed, r#"it responded with "FAILED" when asked for its metadata: "no""#);
    }

    #[test]
    fn params_with_default_are_optional() {
        let schema = json!({
            "type": "object", "additionalProperties": false, "required": ["target", "replicas"],
            "properties": {"target": {"type": "string"}, "replicas": {"type": "number", "default": 1}},
        });
        let steps = parse_steps(json!([{"stepType": "a", "paramsJsonSchema": schema}])).expect("metadata");
        let params = params_schema(&steps[0].schema).expect("schema");
        let codes = |value: &Value| -> Vec<&str> {
            params.check(value, |_| false).iter().map(|problem| problem.code).collect()
        };
        assert_eq!(codes(&json!({"target": "x"})), [""; 0]);
        assert_eq!(codes(&json!({})), ["missing_param"]);
        assert_eq!(codes(&json!({"target": "x", "extra": 1})), ["unknown_param"]);
    }
}
