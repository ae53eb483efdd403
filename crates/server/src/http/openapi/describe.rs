//! Operation ids, summaries and descriptions, derived from the names and doc comments of the handlers.

use serde_json::{Value, json};

use crate::http::route_builder::{RouteAccess, RouteInfo};

pub(super) fn complete(operation: &mut Value, route: &RouteInfo) {
    let id = operation["operationId"].as_str().map(operation_id);
    let (summary, rest) = split(&text(&operation["summary"]));
    let more = text(&operation["description"]);
    let sentences = [rest, more, describe_access(route.access)];
    let sentences: Vec<_> = sentences.into_iter().filter(|text| !text.is_empty()).collect();
    operation["operationId"] = json!(id);
    operation["summary"] = json!(summary);
    operation["description"] = json!(sentences.join(" "));
    operation["security"] = match route.access {
        RouteAccess::Open => json!([]),
        RouteAccess::Caller
        | RouteAccess::InstanceAdmin
        | RouteAccess::Runner
        | RouteAccess::NewRunner
        | RouteAccess::Permission(_)
        | RouteAccess::TokenPermission(_) => {
            json!([{"token": []}])
        }
    };
}

/// Converts a handler name to an operation id: `list_pipelines` to `listPipelines`, and `view_pipeline` to
/// `getPipeline`.
fn operation_id(handler: &str) -> String {
    let name = match handler.strip_prefix("view_") {
        Some(noun) => format!("get_{noun}"),
        None => handler.to_owned(),
    };
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |id, word| id + &capitalize(word))
}

/// Splits a doc comment into summary and description, at the end of the first sentence or at a colon or semicolon in
/// it.
fn split(text: &str) -> (String, String) {
    let ends = [". ", ": ", "; "].iter().filter_map(|mark| text.find(mark));
    match ends.min() {
        Some(end) => (text[..end].to_owned(), capitalize(&text[end + 2..])),
        None => (text.trim_end_matches('.').to_owned(), String::new()),
    }
}

fn describe_access(access: RouteAccess) -> String {
    match access {
        RouteAccess::Open => "No authentication required.".to_owned(),
        RouteAccess::Caller => "Requires a valid API token or login.".to_owned(),
        RouteAccess::InstanceAdmin => "Requires an instance admin.".to_owned(),
        RouteAccess::Runner => "Requires the credential of a runner.".to_owned(),
        RouteAccess::NewRunner => "Requires the registration token of a runner.".to_owned(),
        RouteAccess::Permission(action) | RouteAccess::TokenPermission(action) => {
            format!("Requires the `{action}` permission.")
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}

fn capitalize(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}
