//! Tests that the JSON Schema for editors accepts what the parser accepts and has the same fields.

use std::collections::BTreeSet;

use berth_definition::{parse, schema};
use serde_json::Value;

use crate::pipeline_source;

fn schema_errors(source: &str) -> Vec<String> {
    let validator = jsonschema::options().offline().build(&schema()).expect("a schema of the draft");
    let value: Value = serde_saphyr::from_str(source).expect("YAML");
    validator.iter_errors(&value).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

#[test]
fn schema_accepts_every_example_in_the_repository() {
    for source in [
        include_str!("pipelines/full.yaml"),
        include_str!("../../../berth/src/cmd/demo/shop.yaml"),
        include_str!("../../../berth/src/cmd/demo/playground.yaml"),
        include_str!("../../../../bench/src/pipeline.yaml"),
    ] {
        assert!(parse(source).definition.is_some(), "{source}");
        assert_eq!(schema_errors(source), Vec::<String>::new(), "{source}");
    }
}

#[test]
fn schema_allows_expressions_in_params_but_not_in_shell_text() {
    let valid = pipeline_source(
        "stages: [{ name: a, vars: { n: 200 } }]\nsteps:\n    - { name: A, type: http_check, params: { url: '${{ vars.n }}', expect_status: '${{ vars.n }}' }, if: true }",
    );
    assert!(parse(&valid).definition.is_some());
    assert_eq!(schema_errors(&valid), Vec::<String>::new());
    assert!(!schema_errors(&valid.replace("url: '${{ vars.n }}'", "url: nowhere")).is_empty());
}

#[test]
fn schema_rejects_misspelt_fields_and_wrong_values() {
    let full = include_str!("pipelines/full.yaml");
    for (good, bad) in [
        ("version: 1", "version: 2"),
        ("tracks:", "track:"),
        ("stage_defaults:", "stage_default:"),
        ("on_failure: rollback", "on_failure: roll_back"),
        ("requires:", "require:"),
        ("self_approval:", "self_aproval:"),
        ("timezone:", "time_zone:"),
        ("days: [mon,", "days: [monday,"),
        ("type: http_check", "type: http_chek"),
        ("expect_status:", "expect_state:"),
        ("timeout: 10m", "timeout: 10 minutes"),
        ("attempts: 3", "attempts: 30"),
        ("on_lost: ask", "on_lost: maybe"),
        ("needs: [deploy]", "needs: deploy"),
        ("params: { run: ./deploy.sh }", "params: { runs: ./deploy.sh }"),
        ("secret_files:", "secret_file:"),
        ("on_release:", "onrelease:"),
        ("after_idle:", "idle:"),
        ("webhook:", "web_hook:"),
    ] {
        let source = full.replacen(good, bad, 1);
        assert_ne!(source, full, "{good} is in the example");
        assert!(parse(&source).definition.is_none(), "the checks take {bad}");
        assert!(!schema_errors(&source).is_empty(), "the schema takes {bad}");
    }
}

/// An unknown field makes the parser report the known ones, which are compared with the schema.
#[test]
fn schema_and_checks_have_the_same_fields() {
    const NO_FIELD: &str = "qqqqqqqqqqqq";
    let definitions = schema();
    let step = "steps:\n    - { name: A, type: dummy, qqqqqqqqqqqq: 1 }";
    for (lines, at) in [
        ("qqqqqqqqqqqq: 1", "/$defs/pipeline"),
        ("stage_defaults: { qqqqqqqqqqqq: 1 }", "/$defs/stage_defaults"),
        ("stages: [{ name: a, qqqqqqqqqqqq: 1 }]", "/$defs/stage"),
        (step, "/$defs/step"),
        ("ephemeral_environments: { a: { qqqqqqqqqqqq: 1 } }", "/$defs/environment"),
        ("stages: [{ name: a, requires: { qqqqqqqqqqqq: 1 } }]", "/$defs/requires"),
        ("stages: [{ name: a, window: { timezone: UTC, qqqqqqqqqqqq: 1 } }]", "/$defs/window"),
    ] {
        let diagnostics = parse(&pipeline_source(lines)).diagnostics;
        let told = diagnostics.iter().find(|found| found.message.contains(NO_FIELD)).expect(at);
        let (_, told) = told.message.split_once("; there are ").expect("the fields there are");
        let told = told.replace(" and ", ", ");
        let known: BTreeSet<&str> = told.split(", ").collect();
        let properties = definitions.pointer(&format!("{at}/properties")).and_then(Value::as_object);
        let described: BTreeSet<&str> = properties.expect(at).keys().map(String::as_str).collect();
        assert_eq!(described, known, "{at}");
    }
}

#[test]
fn schema_describes_every_field() {
    fn collect_undescribed(schema: &Value, at: &str, missing: &mut Vec<String>) {
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let here = format!("{at}/{name}");
            if property.get("description").is_none() && property.get("$ref").is_none() {
                missing.push(here.clone());
            }
            collect_undescribed(property, &here, missing);
        }
    }
    let schema = schema();
    let mut missing = Vec::new();
    collect_undescribed(&schema, "", &mut missing);
    for (name, definition) in schema["$defs"].as_object().expect("definitions") {
        assert!(definition["description"].is_string(), "{name}");
        collect_undescribed(definition, name, &mut missing);
    }
    assert_eq!(missing, Vec::<String>::new());
}
