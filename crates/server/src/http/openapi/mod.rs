//! OpenAPI documents, generated from the handlers and completed from the route table.
//!
//! `openapi.json` is for clients of the API; the runner protocol has a separate document.

mod describe;
mod document;
mod examples;
mod headers;
mod parameters;
mod problems;
mod schemas;

use std::sync::{Arc, OnceLock};

use axum::Extension;
use axum::response::{IntoResponse, Response};
use http::header;
use serde_json::Value;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};

use super::route_builder::RouteInfo;
use crate::app::App;

const RUNNER_PATHS: &str = "/api/v1/runner/";

/// Describes the operations of one path.
pub(super) type DescribeRoute = fn() -> UtoipaMethodRouter<Arc<App>>;

#[derive(Debug, Default)]
pub struct OpenApiDocuments {
    pub api: Value,
    pub runner: Value,
}

/// Builds the documents when they are first requested, because they take time and several megabytes.
#[derive(Clone, Default)]
pub(super) struct LazyDocuments(Arc<DocumentParts>);

#[derive(Default)]
struct DocumentParts {
    /// The descriptions of all routes, and the route table.
    known: OnceLock<(Vec<DescribeRoute>, Vec<RouteInfo>)>,
    texts: OnceLock<[String; 2]>,
}

impl LazyDocuments {
    /// Sets the descriptions and the route table. Called once all routes are registered, because the documents also
    /// describe the routes that serve them.
    pub(super) fn set(&self, descriptions: Vec<DescribeRoute>, table: Vec<RouteInfo>) {
        self.0.known.get_or_init(|| (descriptions, table));
    }

    fn documents(&self) -> OpenApiDocuments {
        let Some((descriptions, table)) = self.0.known.get() else { return OpenApiDocuments::default() };
        let empty = OpenApiRouter::new();
        let mut described = descriptions.iter().fold(empty, |router, describe| router.routes(describe()));
        document::finish(&described.to_openapi(), table)
    }

    fn respond(&self, index: usize) -> Response {
        let texts = self.0.texts.get_or_init(|| {
            let documents = self.documents();
            [documents.api.to_string(), documents.runner.to_string()]
        });
        ([(header::CONTENT_TYPE, "application/json")], texts[index].clone()).into_response()
    }
}

/// Get the OpenAPI document of this API. The runner protocol has its own.
#[utoipa::path(get, operation_id = "getOpenapi", path = "/api/v1/openapi.json", tag = "server",
    responses((status = 200, description = "The OpenAPI document", body = Object)))]
pub(super) async fn openapi_json(Extension(served): Extension<LazyDocuments>) -> Response {
    served.respond(0)
}

/// Get the OpenAPI document of the runner protocol. It may change with every version, because runners must have the
/// server's version.
#[utoipa::path(get, operation_id = "getOpenapiRunner", path = "/api/v1/openapi-runner.json", tag = "server",
    responses((status = 200, description = "The OpenAPI document of the runner protocol", body = Object)))]
pub(super) async fn openapi_runner_json(Extension(served): Extension<LazyDocuments>) -> Response {
    served.respond(1)
}

/// Returns the documents, to write the copies that are checked in to the repository.
pub fn documents(app: &Arc<App>) -> OpenApiDocuments {
    super::router::build(app).2.documents()
}
