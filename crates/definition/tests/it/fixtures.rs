//! Tests complete definition files against their expected diagnostics.

use berth_definition::{DiagnosticSeverity, diagnostics_at, parse, write};
use expect_test::expect_file;

use crate::render_diagnostics;

const FULL: &str = include_str!("pipelines/full.yaml");

#[test]
fn reference_example_is_valid_except_for_inactive_parts() {
    let parsed = parse(FULL);
    expect_file!["pipelines/full.diagnostics.txt"].assert_eq(&render_diagnostics(&parsed));
    let definition = serde_json::to_string_pretty(&parsed.definition).expect("json");
    expect_file!["pipelines/full.json"].assert_eq(&definition);
}

#[test]
fn docs_contain_the_reference_example() {
    let page = include_str!("../../../../docs/pipeline.md");
    let example = page.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next());
    assert_eq!(example.map(str::trim_end), Some(FULL.trim_end()));
}

#[test]
fn definition_round_trips_through_json() {
    let definition = parse(FULL).definition.expect("no errors");
    let text = serde_json::to_string(&definition).expect("json");
    assert_eq!(
        serde_json::from_str::<berth_core::pipeline::PipelineDefinition>(&text).expect("reads"),
        definition
    );
}

#[test]
fn definition_round_trips_through_its_written_form() {
    let definition = parse(FULL).definition.expect("no errors");
    let text = write(&definition).expect("text");
    assert_eq!(parse(&text).definition.as_ref(), Some(&definition), "{text}");
    let apart =
        crate::pipeline_source("steps: [{ name: A, type: dummy }, { name: B, type: dummy, needs: [] }]");
    let apart = parse(&apart).definition.expect("no errors");
    assert_eq!(parse(&write(&apart).expect("text")).definition, Some(apart));
}

#[test]
fn all_mistakes_of_a_file_are_reported_at_once() {
    let parsed = parse(include_str!("pipelines/mistakes.yaml"));
    expect_file!["pipelines/mistakes.diagnostics.txt"].assert_eq(&render_diagnostics(&parsed));
}

#[test]
fn json_definition_has_diagnostics_with_its_own_lines() {
    let parsed = parse(include_str!("pipelines/mistakes.json"));
    expect_file!["pipelines/mistakes.json.diagnostics.txt"].assert_eq(&render_diagnostics(&parsed));
}

#[test]
fn yaml_and_json_definitions_are_equal() {
    let yaml = "version: 1\npipeline:\n  name: A\n  stages: [{ name: a }]\n  steps:\n    - name: B\n      type: soak\n      params: { duration: 1h30m }\n";
    let json = r#"{"version": 1, "pipeline": {"name": "A", "stages": [{"name": "a"}],
      "steps": [{"name": "B", "type": "soak", "params": {"duration": "1h30m"}}]}}"#;
    let definition = parse(yaml).definition;
    assert!(definition.is_some());
    assert_eq!(parse(json).definition, definition);
}

#[test]
fn used_secrets_are_listed_with_their_positions() {
    let definition = parse(FULL).definition.expect("no errors");
    let uses: Vec<String> = definition
        .secrets_used()
        .into_iter()
        .map(|found| format!("{} {:?} {} {}", found.name, found.phase, found.step, found.pointer))
        .collect();
    assert_eq!(
        uses,
        [
            "DEPLOY_TOKEN Stages deploy /pipeline/steps/0/env/TOKEN",
            "KUBECONFIG_YAML Stages deploy /pipeline/steps/0/secret_files/KUBECONFIG",
        ]
    );
}

#[test]
fn server_diagnostics_can_be_added_at_a_position() {
    let place = |source, pointer: &str| {
        let findings = vec![(pointer.to_owned(), "there is no secret `DEPLOY_TOKEN`".to_owned())];
        diagnostics_at(source, DiagnosticSeverity::Error, "missing_secret", findings).remove(0)
    };
    let found = place(FULL, "/pipeline/steps/0/env/TOKEN");
    assert_eq!(
        &found.source_line[found.column as usize - 1..found.end_column as usize - 1],
        r#""${{ secrets.DEPLOY_TOKEN }}""#
    );
    let nowhere = place("{", "/a/b");
    assert_eq!((nowhere.line, nowhere.column), (1, 1));
}
