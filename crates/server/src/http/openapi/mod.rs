//! The OpenAPI documents: generated from the handlers, completed with what the route table knows about all of them.
//!
//! `openapi.json` is for clients; what runners say to the server is in a document of its own.

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
use utoipa::openapi::path::PathItem;

pub(super) use document::finish;

use crate::app::App;

/// Where the paths of runners begin.
const RUNNER_PATHS: &str = "/api/v1/runner/";

#[derive(Debug, Default)]
pub struct Documents {
    pub api: Value,
    pub runner: Value,
}

/// The documents as they are served.
#[derive(Clone, Default)]
pub(super) struct Served(Arc<OnceLock<[String; 2]>>);

impl Served {
    /// Their own routes are in them, so they are known only after those.
    pub(super) fn set(&self, documents: &Documents) {
        self.0.get_or_init(|| [documents.api.to_string(), documents.runner.to_string()]);
    }

    fn respond(&self, index: usize) -> Response {
        let text = self.0.get().map(|texts| texts[index].clone()).unwrap_or_default();
        ([(header::CONTENT_TYPE, "application/json")], text).into_response()
    }
}

/// Get this document. It describes every operation but those of runners.
#[utoipa::path(get, operation_id = "getOpenapi", path = "/api/v1/openapi.json", tag = "server",
    responses((status = 200, description = "The OpenAPI document", body = Object)))]
pub(super) async fn openapi_json(Extension(served): Extension<Served>) -> Response {
    served.respond(0)
}

/// Get the OpenAPI document of the runner protocol. Runners have to be of the server's version, so it changes with it.
#[utoipa::path(get, operation_id = "getOpenapiRunner", path = "/api/v1/openapi-runner.json", tag = "server",
    responses((status = 200, description = "The OpenAPI document of the runner protocol", body = Object)))]
pub(super) async fn openapi_runner_json(Extension(served): Extension<Served>) -> Response {
    served.respond(1)
}

/// The documents, for the files in the repository.
pub fn documents(app: &Arc<App>) -> Documents {
    super::router::build(app).2
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
