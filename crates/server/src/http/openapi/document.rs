//! Assembles the documents: info, tags, security schemes, and the paths of each.

use berth_api::approval::ApprovalStatusFilter;
use berth_api::log::LogStreamName;
use serde_json::{Map, Value, json};
use utoipa::openapi::OpenApi;

use super::{Documents, RUNNER_PATHS, describe, examples, headers, parameters, problems, schemas};
use crate::http::router::RouteInfo;

const TAGS: &[(&str, &str)] = &[
    ("analyses", "Why a step failed, and pull requests that would fix it."),
    ("api tokens", "Bearer tokens. Each is for one organization and speaks for one user."),
    ("approvals", "What waits for people to agree, and their answers."),
    ("deployments", "Commits on their way through the stages of a pipeline, or in an environment."),
    (
        "environments",
        "Ephemeral environments: claim one, deploy in the session, release it. One session holds it.",
    ),
    ("events", "The audit log. Each event carries the hash of the one before it."),
    ("members", "People and service accounts of an organization, their roles, and invitations."),
    ("organizations", "Every other record belongs to one organization."),
    ("pages", "Pages for people."),
    ("pipelines", "Pipelines and their definitions."),
    ("repositories", "Git repositories that definitions of pipelines come from."),
    ("runner protocol", "What runners on other machines say to the server. They must be of its version."),
    ("runners", "Machines that execute steps."),
    ("secrets", "Values that steps get and that are never shown."),
    ("server", "Health, readiness and these documents."),
    ("sign-in", "The browser's session, the caller's account and password."),
    ("step registries", "Git repositories of custom step types."),
    ("webhooks", "Who is notified of which events, and every delivery."),
];

/// Completes the generated document with what operations have in common.
pub(super) fn finish(document: &OpenApi, table: &[RouteInfo]) -> Documents {
    let mut document = serde_json::to_value(document).unwrap_or_default();
    problems::add_schema(&mut document);
    // Used in parameters only, where utoipa does not collect schemas.
    schemas::add::<ApprovalStatusFilter>(&mut document);
    schemas::add::<LogStreamName>(&mut document);
    schemas::name_envelopes(&mut document);
    for (path, methods) in members(&mut document["paths"]) {
        for (method, operation) in members(methods) {
            let is_it = |route: &&RouteInfo| route.path == *path && route.method.eq_ignore_ascii_case(method);
            if let Some(route) = table.iter().find(is_it) {
                describe::complete(operation, route);
                parameters::complete(operation, route);
                problems::complete(operation, route);
                headers::complete(operation, route);
            }
        }
    }
    document["components"]["responses"] = problems::responses();
    schemas::require_members_of_responses(&mut document);
    schemas::list_enums(&mut document);
    examples::add(&mut document);
    let of_runners = |path: &str| path.starts_with(RUNNER_PATHS);
    Documents {
        api: part(
            &document,
            &json!({"title": "Berth", "description": "Continuous delivery: pipelines, deployments, shared environments. Send an API token as bearer token."}),
            |path| !of_runners(path),
        ),
        runner: part(
            &document,
            &json!({"title": "Berth runner protocol", "description": "What runners on other machines say to the server. Clients need nothing of it."}),
            of_runners,
        ),
    }
}

/// Iterates over the members of an object, mutably.
pub(super) fn members(value: &mut Value) -> impl Iterator<Item = (&String, &mut Value)> {
    value.as_object_mut().into_iter().flatten()
}

/// A document with a subset of the paths and the components they refer to.
fn part(whole: &Value, about: &Value, is_in: impl Fn(&str) -> bool) -> Value {
    let paths = whole["paths"].as_object().into_iter().flatten().filter(|(path, _)| is_in(path));
    let paths: Map<String, Value> = paths.map(|(path, item)| (path.clone(), item.clone())).collect();
    let paths = Value::Object(paths);
    let needed = schemas::reachable(&paths, whole);
    let components = |kind: &str| -> Map<String, Value> {
        let all = whole["components"][kind].as_object().into_iter().flatten();
        let is_needed = |name: &str| needed.contains(&format!("#/components/{kind}/{name}"));
        all.filter(|(name, _)| is_needed(name)).map(|(name, one)| (name.clone(), one.clone())).collect()
    };
    let used = |tag: &str| {
        let operations =
            paths.as_object().into_iter().flatten().filter_map(|(_, item)| item.as_object()).flatten();
        operations.into_iter().any(|(_, operation)| operation["tags"][0] == tag)
    };
    let tags = TAGS.iter().filter(|(name, _)| used(name));
    let tags: Vec<_> = tags.map(|(name, text)| json!({"name": name, "description": text})).collect();
    let bearer = json!({"type": "http", "scheme": "bearer", "bearerFormat": "berth_api_…"});
    json!({
        "openapi": whole["openapi"],
        "info": {
            "title": about["title"],
            "description": about["description"],
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            "version": env!("CARGO_PKG_VERSION"),
        },
        "servers": [{"url": "/"}],
        "tags": tags,
        "paths": paths,
        "components": {
            "schemas": components("schemas"),
            "responses": components("responses"),
            "securitySchemes": {"token": bearer},
        },
    })
}
