//! Assembles the OpenAPI documents: info, tags, security schemes, and the paths of each document.

use berth_api::approval::ApprovalStatusFilter;
use berth_api::log::LogStreamName;
use berth_api::pull_request::PullRequestStateFilter;
use serde_json::{Map, Value, json};
use utoipa::openapi::OpenApi;

use super::{OpenApiDocuments, RUNNER_PATHS, describe, examples, headers, parameters, problems, schemas};
use crate::http::is_foreign_protocol;
use crate::http::route_builder::RouteInfo;

const TAGS: &[(&str, &str)] = &[
    ("analyses", "Failure analyses and pull requests for suggested fixes."),
    ("api tokens", "Bearer tokens. A token belongs to one organization and has the permissions of one user."),
    ("approvals", "Pending approvals and votes."),
    ("deployments", "Deployments through the stages of a pipeline or to an environment."),
    ("environments", "Ephemeral environments and the sessions that hold their locks."),
    ("events", "The audit log. Each event contains the hash of the previous one."),
    ("grants", "Roles on parts of an organization, and what a member may do."),
    ("members", "People and service accounts of an organization, their roles, and invitations."),
    ("notifications", "The inbox of the caller, and the rules that decide what it gets."),
    ("organizations", "Every other record belongs to one organization."),
    ("pages", "HTML pages."),
    ("pipelines", "Pipelines and their definitions."),
    ("pull requests", "Pull requests of connected repositories and the environments that they use."),
    ("repositories", "Git repositories with pipeline definitions."),
    ("runner protocol", "Requests of remote runners, which must have the same version as the server."),
    ("runners", "Machines that execute steps."),
    ("secrets", "Values for steps, never returned by the API."),
    ("server", "Health, readiness and these documents."),
    ("sign-in", "Login, and the current user's account and password."),
    ("step registries", "Git repositories of custom step types."),
    ("instance", "Organizations of the installation, for instance admins."),
    ("teams", "Groups of members that have grants."),
    ("webhooks", "Event notifications and their deliveries."),
];

/// Completes the generated document with the parts that many operations share.
pub(super) fn finish(document: &OpenApi, table: &[RouteInfo]) -> OpenApiDocuments {
    let mut document = serde_json::to_value(document).unwrap_or_default();
    problems::add_schema(&mut document);
    // These types occur only in parameters, where utoipa does not collect schemas.
    schemas::add::<ApprovalStatusFilter>(&mut document);
    schemas::add::<PullRequestStateFilter>(&mut document);
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
    OpenApiDocuments {
        api: part(
            &document,
            &json!({"title": "Berth", "description": "Continuous delivery with pipelines, deployments and shared environments. Authenticate with an API token as bearer token."}),
            |path| !of_runners(path) && !is_foreign_protocol(path),
        ),
        runner: part(
            &document,
            &json!({"title": "Berth runner protocol", "description": "Protocol between remote runners and the server. API clients do not need it."}),
            of_runners,
        ),
    }
}

/// Iterates over the members of an object, mutably.
pub(super) fn members(value: &mut Value) -> impl Iterator<Item = (&String, &mut Value)> {
    value.as_object_mut().into_iter().flatten()
}

/// Returns a document with a subset of the paths and the components that they refer to.
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
