//! The OpenAPI document: generated from the handlers, finished with what the route table knows about all of them.

use std::sync::{Arc, OnceLock};

use axum::Extension;
use axum::response::{IntoResponse, Response};
use berth_api::problem::Problem;
use http::header;
use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder, ParameterIn, PathItem};
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, Schema, SchemaFormat, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    Content, ContentBuilder, Header, HeaderBuilder, OpenApi, Ref, RefOr, Required, Response as Described,
    ResponseBuilder,
};
use utoipa::{PartialSchema, ToSchema};

use super::router::{Access, RouteInfo};
use crate::app::App;
use crate::limits::IDEMPOTENCY_KEY_BYTES_MAX;

/// The document as it is served.
#[derive(Clone, Default)]
pub(super) struct Document(Arc<OnceLock<String>>);

impl Document {
    /// Its own route is in it, so it is known only after that.
    pub(super) fn is(&self, document: &OpenApi) {
        self.0.get_or_init(|| document.to_json().unwrap_or_default());
    }
}

/// This document.
#[utoipa::path(get, path = "/api/v1/openapi.json", tag = "server",
    responses((status = 200, description = "the OpenAPI document", body = Object)))]
pub(super) async fn openapi_json(Extension(document): Extension<Document>) -> Response {
    let text = document.0.get().cloned().unwrap_or_default();
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}

/// The document for the repository: pretty, with a newline at the end.
pub fn pretty(app: &Arc<App>) -> String {
    let (_, _, document) = super::router::build(app);
    document.to_pretty_json().unwrap_or_default() + "\n"
}

/// Parameters that stand in many paths.
const PATH_PARAMETERS: &[(&str, &str)] = &[
    ("orgId", "id or slug of the organization"),
    ("pipelineId", "id or slug of the pipeline"),
    ("repositoryId", "id of the repository"),
    ("registryId", "id or name of the step registry"),
    ("runnerId", "id or name of the runner; `embedded` for the one inside the server"),
    ("buildNumber", "number of the build"),
    ("envName", "name of the environment"),
    ("sessionId", "id of the session"),
    ("ticketId", "id of the ticket"),
    ("deploymentId", "id of the deployment"),
    ("stepId", "id of the step, or its id in the definition"),
    ("analysisId", "id of the analysis"),
    ("approvalId", "id of the approval"),
    ("stage", "name of the stage, or of the environment"),
    ("userId", "id of the user"),
    ("tokenId", "id of the token"),
    ("invitationId", "id of the invitation"),
    ("secretId", "id of the secret, or its name if the whole organization has it"),
    ("webhookId", "id or name of the webhook"),
    ("deliveryId", "id of the delivery"),
    ("eventId", "id of the event"),
    ("code", "code of a problem"),
];

/// Ids, slugs and names. Anything else in their place is a 404, or a 400 where a path can be read in two ways.
const PATH_PARAMETER_PATTERN: &str = "^[A-Za-z0-9_-]{1,128}$";

/// Routes that take the token of a link, which may have been used.
const LINK_ROUTES: &[&str] = &[
    "/api/v1/auth/invitation",
    "/api/v1/auth/sign-up",
    "/api/v1/auth/reset-password",
    "/api/v1/me/organizations",
];

/// Adds what every operation of its kind has in common: problems, security, paging, path parameters.
pub(super) fn finished(mut document: OpenApi, table: &[RouteInfo]) -> OpenApi {
    document.info.title = "Berth".into();
    document.info.version = env!("CARGO_PKG_VERSION").into();
    document.info.description =
        Some("Continuous delivery: pipelines, deployments, shared environments.".into());
    document.info.contact = None;
    document.info.license = Some(
        utoipa::openapi::LicenseBuilder::new().name("Apache-2.0").identifier(Some("Apache-2.0")).build(),
    );
    document.servers = Some(vec![utoipa::openapi::Server::new("/")]);
    let components = document.components.get_or_insert_default();
    let mut schemas = vec![(Problem::name().into_owned(), Problem::schema())];
    Problem::schemas(&mut schemas);
    components.schemas.extend(schemas);
    components.responses.insert("Problem".into(), RefOr::T(problem(&[])));
    components
        .responses
        .insert("Unauthenticated".into(), RefOr::T(problem(&[("WWW-Authenticate", "Bearer")])));
    components
        .responses
        .insert("Later".into(), RefOr::T(problem(&[("Retry-After", "seconds to wait before trying again")])));
    let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).bearer_format("berth_api_…").build();
    components.add_security_scheme("token", SecurityScheme::Http(bearer));

    for (path, item) in &mut document.paths.paths {
        for (method, operation) in operations_mut(item) {
            if let Some(route) = table.iter().find(|route| route.path == *path && route.method == method) {
                complete(operation, route);
            }
            add_path_parameters(operation, path);
        }
    }
    document
}

fn complete(operation: &mut Operation, route: &RouteInfo) {
    let has_body = operation.request_body.is_some();
    if let Some(RefOr::T(body)) = &mut operation.request_body {
        body.content.values_mut().for_each(without_null);
    }
    let lists = operation.responses.responses.get("200").is_some_and(is_list);
    let mut problems = vec!["400", "408", "500", "503"];
    if route.access != Access::Open {
        problems.extend(["401", "403"]);
        operation.security = Some(vec![SecurityRequirement::new("token", Vec::<String>::new())]);
    } else {
        operation.security = Some(Vec::new());
    }
    if route.path.starts_with("/api/") {
        problems.push("429");
    }
    if route.path.contains('{') {
        problems.push("404");
    }
    if has_body {
        problems.extend(["413", "415", "422"]);
    }
    if route.path.ends_with("/auth/login") {
        problems.extend(["401", "403"]);
    }
    if LINK_ROUTES.contains(&route.path.as_str()) {
        problems.extend(["403", "404"]);
    }
    if route.method != "GET" {
        problems.extend(["409", "412"]);
    }
    for status in problems {
        let name = match status {
            "401" => "Unauthenticated",
            "429" | "503" => "Later",
            _ => "Problem",
        };
        let response = RefOr::Ref(Ref::from_response_name(name));
        operation.responses.responses.entry(status.to_owned()).or_insert(response);
    }
    describe_successes(operation, lists);
    let parameters = operation.parameters.get_or_insert_default();
    if lists {
        parameters.push(whole_number("limit", "records on a page, at most 200", 1).into());
        parameters.push(whole_number("offset", "records to skip", 0).into());
        let cursor = text(ParameterIn::Query, "cursor", "nextCursor of the page before, in place of offset");
        parameters.push(matching(cursor, "^[A-Za-z0-9_-]*$").into());
    }
    // What runners say has nonces of its own.
    let is_for_people = matches!(route.access, Access::Caller | Access::Permission(_));
    if route.method == "POST" && is_for_people {
        let key = text(ParameterIn::Header, "Idempotency-Key", "repeats with the same key have one effect");
        parameters.push(matching(key, &format!("^[ -~]{{1,{IDEMPOTENCY_KEY_BYTES_MAX}}}$")).into());
    }
}

/// A body that may be absent is an object when it is there, never `null`.
fn without_null(content: &mut RefOr<Content>) {
    if let RefOr::T(content) = content
        && let Some(RefOr::T(Schema::OneOf(one_of))) = &content.schema
        && let Some(reference) = one_of.items.iter().find(|item| matches!(item, RefOr::Ref(_)))
    {
        content.schema = Some(reference.clone());
    }
}

/// The specification wants a description of every answer, and clients want to know its headers.
fn describe_successes(operation: &mut Operation, lists: bool) {
    let named = [("200", "done"), ("201", "created"), ("202", "accepted")];
    for (status, words) in named {
        let Some(RefOr::T(response)) = operation.responses.responses.get_mut(status) else { continue };
        if response.description.is_empty() {
            words.clone_into(&mut response.description);
        }
        let mut add = |name: &str, words: &str| response.headers.insert(name.into(), header_of(words));
        add("X-Request-Id", "the request's id, as it is in the log");
        if lists {
            add("Link", "first, prev, next and last page, as far as they are known");
        }
        match status {
            "201" => add("Location", "where the new record is"),
            "202" => add("Location", "where to see what becomes of it"),
            _ => None,
        };
    }
}

fn problem(headers: &[(&str, &str)]) -> Described {
    let schema = Ref::from_schema_name("Problem");
    let content = ContentBuilder::new().schema(Some(schema)).build();
    let mut response =
        ResponseBuilder::new().description("a problem").content("application/problem+json", content).build();
    let common = ("X-Request-Id", "the request's id, as it is in the log");
    for (name, words) in headers.iter().chain([&common]) {
        response.headers.insert((*name).to_owned(), header_of(words));
    }
    response
}

fn header_of(words: &str) -> RefOr<Header> {
    RefOr::T(HeaderBuilder::new().description(Some(words)).build())
}

fn is_list(response: &RefOr<Described>) -> bool {
    let RefOr::T(response) = response else { return false };
    let Some(RefOr::T(content)) = response.content.get("application/json") else { return false };
    matches!(&content.schema, Some(RefOr::Ref(reference)) if reference.ref_location.contains("/List_"))
}

fn add_path_parameters(operation: &mut Operation, path: &str) {
    let parameters = operation.parameters.get_or_insert_default();
    let named = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    for name in named {
        let known = PATH_PARAMETERS.iter().find(|(known, _)| *known == name);
        let description = known.map_or("", |(_, description)| description);
        let mut parameter = matching(text(ParameterIn::Path, name, description), PATH_PARAMETER_PATTERN);
        parameter.required = Required::True;
        parameters.push(parameter.into());
    }
    if parameters.is_empty() {
        operation.parameters = None;
    }
}

fn text(place: ParameterIn, name: &str, description: &str) -> Parameter {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(place)
        .required(Required::False)
        .description(Some(description))
        .schema(Some(Schema::Object(ObjectBuilder::new().schema_type(Type::String).build())))
        .build()
}

fn matching(mut parameter: Parameter, pattern: &str) -> Parameter {
    let schema = ObjectBuilder::new().schema_type(Type::String).pattern(Some(pattern)).build();
    parameter.schema = Some(RefOr::T(Schema::Object(schema)));
    parameter
}

fn whole_number(name: &str, description: &str, least: i64) -> Parameter {
    let number = ObjectBuilder::new()
        .schema_type(Type::Integer)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
        .minimum(Some(least as f64))
        .build();
    let mut parameter = text(ParameterIn::Query, name, description);
    parameter.schema = Some(RefOr::T(Schema::Object(number)));
    parameter
}

pub(super) fn methods(item: &PathItem) -> Vec<&'static str> {
    let all = [
        ("GET", item.get.is_some()),
        ("PUT", item.put.is_some()),
        ("POST", item.post.is_some()),
        ("PATCH", item.patch.is_some()),
        ("DELETE", item.delete.is_some()),
    ];
    all.into_iter().filter(|(_, present)| *present).map(|(method, _)| method).collect()
}

fn operations_mut(item: &mut PathItem) -> Vec<(&'static str, &mut Operation)> {
    let all = [
        ("GET", item.get.as_mut()),
        ("PUT", item.put.as_mut()),
        ("POST", item.post.as_mut()),
        ("PATCH", item.patch.as_mut()),
        ("DELETE", item.delete.as_mut()),
    ];
    all.into_iter().filter_map(|(method, operation)| operation.map(|operation| (method, operation))).collect()
}
