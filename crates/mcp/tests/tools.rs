//! The tools that clients see: names, descriptions, schemas and annotations.

use std::collections::BTreeSet;

use expect_test::expect_file;

#[test]
fn tool_list_matches_the_snapshot() {
    let tools = serde_json::to_string_pretty(&berth_mcp::list_tools()).expect("JSON") + "\n";
    expect_file!["tools.json"].assert_eq(&tools);
}

#[test]
fn tools_have_closed_schemas_and_annotations() {
    let mut names = BTreeSet::new();
    for tool in berth_mcp::list_tools() {
        assert!(names.insert(tool.name.clone()), "{} is there twice", tool.name);
        let schema = tool.schema_as_json_value();
        assert_eq!(
            (&schema["type"], &schema["additionalProperties"]),
            (&"object".into(), &false.into()),
            "{schema}"
        );
        let annotations = tool.annotations.expect("annotations");
        assert!(
            annotations.read_only_hint.is_some() && annotations.open_world_hint.is_some(),
            "{}",
            tool.name
        );
        assert!(tool.description.is_some_and(|text| text.ends_with('.')), "{}", tool.name);
    }
}
