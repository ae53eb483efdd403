//! Error responses in the OpenAPI document: one `Problem` schema with the members of all codes, and one response per
//! status.

use berth_api::problem::{Code, ProblemDetails};
use serde_json::{Map, Value, json};

use super::document::members;
use super::headers::{header, request_id};
use super::schemas;
use crate::http::route_builder::{RouteAccess, RouteInfo};

/// For each status: the name of the response, and the code and detail of its example.
const RESPONSES: &[(u16, &str, Code, &str)] = &[
    (400, "BadRequest", Code::InvalidParameter, "parameter limit must be a whole number from 1 to 1000"),
    (401, "Unauthenticated", Code::Unauthenticated, "send Authorization: Bearer <token>"),
    (403, "Forbidden", Code::Forbidden, "this requires the environments:claim permission"),
    (404, "NotFound", Code::NotFound, "pipeline not found"),
    (408, "RequestTimeout", Code::RequestTimeout, "no part of the body arrived for more than 10 s"),
    (
        409,
        "Conflict",
        Code::EnvironmentLocked,
        "environment \"qa-1\" has been held by Ada since 2026-11-15T09:30:00.000Z",
    ),
    (412, "PreconditionFailed", Code::PreconditionFailed, "it has changed since you read it"),
    (413, "BodyTooLarge", Code::BodyTooLarge, "the body is larger than 1048576 bytes"),
    (415, "UnsupportedMediaType", Code::UnsupportedMediaType, "the body must be application/json"),
    (
        422,
        "Unprocessable",
        Code::IdempotencyKeyReused,
        "this Idempotency-Key was already used with a different body",
    ),
    (429, "RateLimited", Code::RateLimited, "too many requests; wait 2 s"),
    (500, "Internal", Code::Internal, "internal error; the server log has details under this request id"),
    (503, "Unavailable", Code::Unavailable, "the server is stopping"),
];

/// Routes that take a token from a link or the code of a CLI login, which may already have been used.
const LINK_ROUTES: &[&str] = &[
    "/api/v1/auth/invitation",
    "/api/v1/auth/sign-up",
    "/api/v1/auth/reset-password",
    "/api/v1/me/organizations",
    "/api/v1/auth/cli-logins/find",
    "/api/v1/auth/cli-logins/deny",
];

/// Adds the `Problem` schema. All members are merged into a single schema, because client generators create one type
/// per schema.
pub(super) fn add_schema(document: &mut Value) {
    schemas::add::<ProblemDetails>(document);
    let all = &mut document["components"]["schemas"];
    let mut problem = all["Problem"]["allOf"][1].take();
    for (name, member) in members(&mut all["ProblemMembers"]["properties"]) {
        problem["properties"][name] = member.take();
    }
    problem["description"] = all["Problem"]["description"].take();
    all["Problem"] = problem;
}

/// Adds the possible error responses to an operation.
pub(super) fn complete(operation: &mut Value, route: &RouteInfo) {
    let mut statuses = vec![400, 408, 500, 503];
    if route.access != RouteAccess::Open {
        statuses.extend([401, 403]);
    }
    if route.path.starts_with("/api/") {
        statuses.push(429);
    }
    // A server without a public URL issues no ID tokens.
    if route.path.contains('{') || route.path.starts_with("/.well-known/") {
        statuses.push(404);
    }
    // A POST route parses its body even if the body has no members.
    if operation["requestBody"].is_object() || route.method == "POST" {
        statuses.extend([413, 415, 422]);
    }
    if route.path.ends_with("/auth/login") {
        statuses.extend([401, 403]);
    }
    // The signature of a forge authenticates its deliveries.
    if route.path.starts_with("/hooks/") {
        statuses.extend([401, 429]);
    }
    // A link that was used or has expired, or whose recipient may no longer act.
    if route.path == "/actions" {
        statuses.extend([403, 404, 409, 429]);
    }
    if route.path.starts_with("/api/v1/auth/providers/") {
        statuses.extend([401, 403, 409]);
    }
    // The form exists while an app is being set up.
    if route.path.ends_with("/forge-apps/form") {
        statuses.push(409);
    }
    if LINK_ROUTES.contains(&&*route.path) {
        statuses.extend([403, 404]);
    }
    if route.method != "GET" {
        statuses.extend([409, 412]);
    }
    statuses.sort_unstable();
    for (status, name, ..) in RESPONSES.iter().filter(|(status, ..)| statuses.contains(status)) {
        operation["responses"][status.to_string()] =
            json!({"$ref": format!("#/components/responses/{name}")});
    }
}

pub(super) fn responses() -> Value {
    let all = RESPONSES
        .iter()
        .map(|&(status, name, code, detail)| (name.to_owned(), response(status, code, detail)));
    Value::Object(all.collect())
}

fn response(status: u16, code: Code, detail: &str) -> Value {
    let codes = Code::ALL.iter().filter(|code| code.status() == status);
    let codes: Vec<_> = codes.map(|code| format!("`{}`", code.as_str())).collect();
    let mut headers = Map::new();
    headers.insert("X-Request-Id".to_owned(), request_id());
    let mut add = |name: &str, text: &str, schema: Value, is_required: bool| {
        headers.insert(name.to_owned(), header(text, &schema, is_required));
    };
    let seconds = json!({"type": "integer", "minimum": 0, "example": 2});
    match status {
        401 => add(
            "WWW-Authenticate",
            "How to authenticate",
            json!({"type": "string", "enum": ["Bearer"]}),
            true,
        ),
        409 => add(
            "Retry-After",
            "With `environment_locked`: seconds until the session expires, if it does",
            seconds,
            false,
        ),
        429 | 503 => add("Retry-After", "Seconds to wait before retrying", seconds, true),
        _ => {}
    }
    if status == 429 {
        let schema = json!({"type": "string", "example": "\"default\";r=0;t=2"});
        add(
            "RateLimit",
            "The limit that was reached, the remaining requests, and the seconds until it resets",
            schema,
            true,
        );
    }
    let schema = json!({"$ref": "#/components/schemas/Problem"});
    let content = json!({"schema": schema, "example": example(code, detail)});
    json!({
        "description": format!("{}: {}", if codes.len() == 1 { "The problem" } else { "One of the problems" }, codes.join(", ")),
        "headers": headers,
        "content": {"application/problem+json": content, "application/json": content},
    })
}

fn example(code: Code, detail: &str) -> Value {
    let holder = json!({"type": "user", "id": "usr_01k9x8s6q0e3v8n5j2m4t7w9yb", "name": "Ada"});
    let environment = "/api/v1/organizations/acme/pipelines/shop/ephemeral-environments/qa-1";
    let mut problem = ProblemDetails::new(code, detail);
    problem.instance = format!("{environment}/sessions");
    problem.request_id = "req_0aZ4kT9wQ1xB7mN3cV5dL8".to_owned();
    let problem = match code {
        Code::Forbidden => problem
            .with_member("permission", "environments:claim")
            .with_member("scope", "environment:shop/qa-1")
            .with_member("grantedBy", vec!["Ada Lovelace"]),
        Code::RateLimited => problem.with_member("retryAfterSeconds", 2),
        Code::EnvironmentLocked => problem
            .with_member("holder", holder)
            .with_member("since", "2026-11-15T09:30:00.000Z")
            .with_member("context", "checkout tests")
            .with_member("commitId", "9fceb02")
            .with_member("expiresAt", Value::Null)
            .with_member("sessionId", "ses_01k9x8s6q0e3v8n5j2m4t7w9yb")
            .with_member("fence", 7)
            .with_member("queueLength", 0)
            .with_member("self", false)
            .with_member("links", json!({"queue": format!("{environment}/queue"), "forceClaim": format!("{environment}/force-claim")})),
        _ => problem,
    };
    serde_json::to_value(problem).unwrap_or_default()
}
