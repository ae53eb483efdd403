//! Tests that the reference page of definitions, which is generated from the schema, is up to date.

use std::fmt::Write as _;

use berth_core::pipeline::limits::{PIPELINE_BYTES_MAX, YAML_ALIASES_MAX, YAML_DEPTH_MAX, YAML_NODES_MAX};
use berth_definition::schema;
use berth_definition::step::{BUILTINS, StepSpec};
use expect_test::expect_file;
use serde_json::Value;

/// The parts of the schema that have their own heading, in the order of the page.
const SECTIONS: &[(&str, &str)] = &[
    ("pipeline", "The pipeline"),
    ("stage_defaults", "Defaults of stages"),
    ("stage", "A stage"),
    ("requires", "Approvals"),
    ("window", "A window"),
    ("step", "A step"),
    ("environment", "An environment"),
];

#[test]
fn pipeline_reference_matches_the_schema() {
    expect_file!["../../../../docs/pipeline-reference.md"].assert_eq(&render_page(&schema()));
}

fn render_page(schema: &Value) -> String {
    let mut page = String::from(
        "# Pipeline reference\n\n\
         Every field of `.berth/<name>/pipeline.yaml`. This page is made from the JSON Schema that `berth pipeline schema` prints, and a test \
         compares them; the guide is [pipeline.md](pipeline.md). Fields in bold are required; a field that is not listed is an error.\n\n\
         ## The file\n\n",
    );
    render_table(schema, schema, &mut page);
    let _ = writeln!(
        page,
        "\nA file has at most {} KiB, {YAML_DEPTH_MAX} levels, {YAML_NODES_MAX} values and {YAML_ALIASES_MAX} aliases.",
        PIPELINE_BYTES_MAX / 1024
    );
    for (name, heading) in SECTIONS {
        let part = &schema["$defs"][*name];
        let _ = write!(page, "\n## {heading}\n\n{}\n\n", description(part));
        render_table(schema, part, &mut page);
    }
    page.push_str("\n## Types of steps\n\nThose of [registries](registries.md) are written `<registry>/<step>` or `CUSTOM:<TYPE>`.\n");
    for spec in BUILTINS {
        render_step_type(spec, &mut page);
    }
    page
}

fn render_step_type(spec: &StepSpec, page: &mut String) {
    let params: Value = serde_json::from_str(spec.schema).expect("a schema");
    let nature = if spec.idempotent { "Idempotent by nature" } else { "Not idempotent by nature" };
    let on_lost = serde_json::to_value(spec.on_lost).expect("a word");
    let on_lost = on_lost.as_str().expect("a word");
    let _ = write!(page, "\n### {}\n\n{} {nature}; `on_lost` is `{on_lost}`.\n\n", spec.name, spec.summary);
    render_table(&params, &params, page);
}

fn render_table(root: &Value, object: &Value, page: &mut String) {
    page.push_str("| field | type | default | limit | meaning |\n|---|---|---|---|---|\n");
    render_rows(root, object, "", page);
}

fn render_rows(root: &Value, object: &Value, prefix: &str, page: &mut String) {
    let required: Vec<&str> =
        object["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (name, field) in object["properties"].as_object().into_iter().flatten() {
        let target = resolve_ref(root, field);
        let label = format!("`{prefix}{name}`");
        let label = if required.contains(&name.as_str()) { format!("**{label}**") } else { label };
        let default = field.get("default").or_else(|| target.get("default"));
        let default = default.map_or_else(String::new, |value| format!("`{value}`").replace('"', ""));
        let cells = [
            label,
            describe_type(root, field),
            default,
            describe_limit(target),
            describe_field(field, target),
        ];
        let cells = cells.map(|cell| cell.replace('|', "\\|"));
        let _ = writeln!(page, "| {} |", cells.join(" | "));
        if find_section(field).is_some() {
            continue;
        }
        let (inner, joint) = match (&target["items"], &target["additionalProperties"]) {
            (items @ Value::Object(_), _) => (items, "[]."),
            (_, values @ Value::Object(_)) => (values, ".<name>."),
            _ => (target, "."),
        };
        if find_section(inner).is_none() {
            render_rows(root, inner, &format!("{prefix}{name}{joint}"), page);
        }
    }
}

/// Follows the `$ref` of a field.
fn resolve_ref<'s>(root: &'s Value, field: &'s Value) -> &'s Value {
    match field["$ref"].as_str().and_then(|it| it.strip_prefix('#')) {
        Some(pointer) => root.pointer(pointer).expect("it refers to something"),
        None => field,
    }
}

fn find_section(field: &Value) -> Option<(&'static str, &'static str)> {
    let name = field["$ref"].as_str()?.strip_prefix("#/$defs/")?;
    SECTIONS.iter().find(|(known, _)| *known == name).copied()
}

fn section_link(field: &Value) -> Option<String> {
    let (_, heading) = find_section(field)?;
    Some(format!("[{}](#{})", heading.to_lowercase(), heading.to_lowercase().replace(' ', "-")))
}

fn describe_type(root: &Value, field: &Value) -> String {
    if let Some(link) = section_link(field) {
        return link;
    }
    if field["$ref"] == "#/$defs/duration" || field["format"] == "berth-duration" {
        return "duration".to_owned();
    }
    let field = resolve_ref(root, field);
    if let Some(words) = field["enum"].as_array() {
        return words
            .iter()
            .map(|it| format!("`{}`", it.as_str().expect("a word")))
            .collect::<Vec<_>>()
            .join(", ");
    }
    if let Some(only) = field.get("const") {
        return format!("`{only}`");
    }
    if let Some(choices) = field["anyOf"].as_array() {
        let mut kinds: Vec<String> =
            choices.iter().map(|it| describe_type(root, it)).filter(|it| it != "nothing").collect();
        kinds.dedup();
        return kinds.join(", ").replace('"', "");
    }
    match &field["type"] {
        Value::Array(several) => {
            several.iter().filter_map(Value::as_str).map(plain_type_name).collect::<Vec<_>>().join(" or ")
        }
        Value::String(one) if one == "array" => format!("list of {}", describe_type(root, &field["items"])),
        Value::String(one) if one == "object" && field["additionalProperties"].is_object() => {
            format!("names with {}", describe_type(root, &field["additionalProperties"]))
        }
        Value::String(one) => plain_type_name(one).to_owned(),
        _ => "any".to_owned(),
    }
}

fn plain_type_name(kind: &str) -> &str {
    match kind {
        "string" => "text",
        "integer" => "whole number",
        "boolean" => "`true` or `false`",
        "object" => "fields",
        "null" => "nothing",
        other => other,
    }
}

fn describe_limit(field: &Value) -> String {
    let bounds = |least: &str, most: &str, what: &str| match (&field[least], &field[most]) {
        (Value::Number(least), Value::Number(most)) => Some(format!("{least} to {most}{what}")),
        (_, Value::Number(most)) => Some(format!("at most {most}{what}")),
        (Value::Number(least), _) if least.as_u64() > Some(1) => Some(format!("at least {least}{what}")),
        _ => None,
    };
    let found = [
        bounds("minimum", "maximum", ""),
        bounds("minLength", "maxLength", " characters"),
        bounds("minItems", "maxItems", ""),
        bounds("minProperties", "maxProperties", ""),
    ];
    found.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn description(field: &Value) -> &str {
    field["description"].as_str().unwrap_or_default()
}

fn describe_field(field: &Value, target: &Value) -> String {
    let own = description(field);
    let text = if own.is_empty() { description(target) } else { own };
    // Expressions are formatted as code; otherwise Markdown would treat `<name>` in them as an HTML tag.
    text.replace("${{", "`${{").replace("}}", "}}`")
}
