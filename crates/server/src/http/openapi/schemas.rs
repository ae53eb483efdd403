//! Schemas in the OpenAPI document: names of envelopes, required members, and enums that are defined in the core crate.

use std::collections::BTreeSet;

use berth_core::access::Action;
use berth_core::event::EventKind;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::document::members;

const SCHEMAS: &str = "#/components/schemas/";

/// Prefixes that utoipa puts before the names of generic envelopes, and the suffixes used instead: `SessionResponse`,
/// `PipelineList`.
const ENVELOPES: &[(&str, &str)] =
    &[("Data_", "Response"), ("List_", "List"), ("All_", "List"), ("Numbered_", "Page")];

/// Adds a schema and the schemas it refers to.
pub(super) fn add<T: ToSchema>(document: &mut Value) {
    let mut schemas = vec![(T::name().into_owned(), T::schema())];
    T::schemas(&mut schemas);
    for (name, schema) in schemas {
        document["components"]["schemas"][name] = serde_json::to_value(schema).unwrap_or_default();
    }
}

/// Renames envelopes and moves their content into separate schemas, because utoipa inlines the content into each
/// envelope.
pub(super) fn name_envelopes(document: &mut Value) {
    let mut renamed = Vec::new();
    let Some(schemas) = document["components"]["schemas"].as_object_mut() else { return };
    for (name, mut schema) in std::mem::take(schemas) {
        let envelope =
            ENVELOPES.iter().find_map(|(prefix, suffix)| Some((name.strip_prefix(prefix)?, suffix)));
        let Some((record, suffix)) = envelope else {
            schemas.insert(name, schema);
            continue;
        };
        let has_items = schema.pointer("/properties/data/items").is_some();
        let place = if has_items { "/properties/data/items" } else { "/properties/data" };
        if let Some(place) = schema.pointer_mut(place)
            && place.get("$ref").is_none()
        {
            let inside = std::mem::replace(place, json!({"$ref": format!("{SCHEMAS}{record}")}));
            schemas.entry(record).or_insert(inside);
        }
        let new = format!("{record}{suffix}");
        schemas.insert(new.clone(), schema);
        renamed.push((format!("{SCHEMAS}{name}"), format!("{SCHEMAS}{new}")));
    }
    each_ref(document, &mut |reference| {
        if let Some((_, new)) = renamed.iter().find(|(old, _)| old == reference) {
            reference.clone_from(new);
        }
    });
}

/// Whether an operation returns a paginated list.
pub(super) fn is_list(operation: &Value) -> bool {
    let schema = operation.pointer("/responses/200/content/application~1json/schema/$ref");
    let is_page = schema.and_then(Value::as_str).is_some_and(|name| name.ends_with("List"));
    // These operations return the complete list without paging.
    let is_whole = [
        "listEnvironments",
        "listForgeAccounts",
        "listForgeApps",
        "listLinkedIdentities",
        "listQueue",
        "listTeamMembers",
    ];
    let is_whole = is_whole.iter().any(|id| operation["operationId"] == *id);
    is_page && !is_whole
}

/// Marks nullable members of responses as required, because the server always sends them: it omits only members that
/// are never `null`. `Problem` is excluded, because its members depend on the code.
pub(super) fn require_members_of_responses(document: &mut Value) {
    let sent = requests(document);
    let Some(schemas) = document["components"]["schemas"].as_object_mut() else { return };
    let of_responses = schemas.iter_mut().filter(|(name, _)| !sent.contains(&format!("{SCHEMAS}{name}")));
    of_responses.filter(|(name, _)| *name != "Problem").for_each(|(_, schema)| require_nullable(schema));
}

/// Returns all schemas that request bodies refer to, directly or indirectly.
fn requests(document: &Value) -> BTreeSet<String> {
    let operations =
        document["paths"].as_object().into_iter().flatten().filter_map(|(_, item)| item.as_object());
    let bodies = operations.flatten().filter_map(|(_, operation)| operation.get("requestBody"));
    bodies.flat_map(|body| reachable(body, document)).collect()
}

fn require_nullable(schema: &mut Value) {
    let properties = schema["properties"].as_object().into_iter().flatten();
    let nullable: Vec<Value> =
        properties.filter(|(_, schema)| is_nullable(schema)).map(|(name, _)| json!(name)).collect();
    if !nullable.is_empty() {
        let mut required = schema["required"].as_array().cloned().unwrap_or_default();
        required.extend(nullable);
        schema["required"] = Value::Array(required);
    }
    if let Some(parts) = schema.get_mut("allOf").and_then(Value::as_array_mut) {
        parts.iter_mut().filter(|part| part["properties"].is_object()).for_each(require_nullable);
    }
}

pub(super) fn is_nullable(schema: &Value) -> bool {
    let is_null = |value: &Value| value == "null";
    schema["type"].as_array().is_some_and(|types| types.iter().any(is_null))
        || schema["oneOf"].as_array().is_some_and(|all| all.iter().any(|one| is_null(&one["type"])))
}

/// Removes `null` from the types of a schema.
pub(super) fn remove_null(schema: &mut Value) {
    if let Some(types) = schema["type"].as_array() {
        let rest: Vec<_> = types.iter().filter(|kind| *kind != "null").cloned().collect();
        schema["type"] = if let [one] = &rest[..] { one.clone() } else { Value::Array(rest) };
    }
    let all = schema["oneOf"].as_array().cloned().unwrap_or_default();
    if all.len() > 1
        && let Some(reference) = all.into_iter().find(|one| one.get("$ref").is_some())
    {
        *schema = reference;
    }
}

/// Fills in enums whose values are defined in the core crate.
pub(super) fn list_enums(document: &mut Value) {
    let kinds = EventKind::ALL.iter().map(|kind| kind.as_str());
    let lists: [(&str, Vec<&str>); 3] = [
        ("EventKind", kinds.clone().collect()),
        ("EventKindOrAll", std::iter::once("*").chain(kinds).collect()),
        ("Permission", Action::ALL.iter().map(|action| action.as_str()).collect()),
    ];
    for (name, words) in lists {
        document["components"]["schemas"][name]["enum"] = json!(words);
    }
}

/// Returns all schemas that `from` refers to, directly or indirectly.
pub(super) fn reachable(from: &Value, document: &Value) -> BTreeSet<String> {
    let (mut found, mut rest) = (BTreeSet::new(), vec![from]);
    while let Some(value) = rest.pop() {
        match value {
            Value::Object(members) => rest.extend(members.values()),
            Value::Array(items) => rest.extend(items),
            Value::String(text) if text.starts_with("#/components/") && found.insert(text.clone()) => {
                rest.extend(document.pointer(&text[1..]));
            }
            _ => {}
        }
    }
    found
}

fn each_ref(value: &mut Value, work: &mut impl FnMut(&mut String)) {
    if let Some(Value::String(reference)) = value.get_mut("$ref") {
        work(reference);
    }
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| each_ref(item, work)),
        other => members(other).for_each(|(_, member)| each_ref(member, work)),
    }
}
