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
use utoipa::openapi::OpenApi;
use utoipa::openapi::path::PathItem;

use super::router::RouteInfo;
use crate::app::App;

const RUNNER_PATHS: &str = "/api/v1/runner/";

#[derive(Debug, Default)]
pub struct OpenApiDocuments {
    pub api: Value,
    pub runner: Value,
}

/// Builds the documents when they are first requested, so that they do not delay server startup.
#[derive(Clone, Default)]
pub(super) struct LazyDocuments(Arc<DocumentParts>);

#[derive(Default)]
struct DocumentParts {
    /// The generated document and the route table.
    known: OnceLock<(OpenApi, Vec<RouteInfo>)>,
    texts: OnceLock<[String; 2]>,
}

impl LazyDocuments {
    /// Sets the generated document and the route table. Called once all routes are registered, because the documents
    /// also describe the routes that serve them.
    pub(super) fn set(&self, document: OpenApi, table: Vec<RouteInfo>) {
        self.0.known.get_or_init(|| (document, table));
    }

    fn documents(&self) -> OpenApiDocuments {
        self.0.known.get().map(|(document, table)| document::finish(document, table)).unwrap_or_default()
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
