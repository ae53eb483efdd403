//! Converts results of use cases into HTTP responses.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use berth_api::Data;
use http::header::{self, HeaderName, HeaderValue};
use http::{StatusCode, response};
use serde::Serialize;

use super::query::ListResponse;
use crate::app::{ApiResponse, IdempotentResponse};
use crate::error::AppError;

/// Typical number of response headers; capacity for them is reserved to avoid reallocation.
const HEADERS_USUAL: usize = 10;

/// Marks an error response whose body belongs to another protocol than the API, and must not be replaced by a problem.
#[derive(Clone)]
pub(super) struct OwnErrorBody;

impl IntoResponse for AppError {
    fn into_response(self) -> Response {
        let problem = self.into_problem();
        let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        // `HttpService` adds the body later, because it knows the request id and which media types the client accepts.
        let mut response = status.into_response();
        response.extensions_mut().insert(problem);
        response
    }
}

impl<T: Serialize> IntoResponse for ApiResponse<T> {
    fn into_response(self) -> Response {
        let etag = self.etag();
        let body = self.stored_body.map_or_else(|| serde_json::to_string(&Data { data: &self.body }), Ok);
        let mut response = match body {
            Ok(body) => json_response(self.status, body),
            Err(error) => return AppError::bug(format!("cannot write the answer: {error}")).into_response(),
        };
        for (name, value) in [(header::LOCATION, self.location), (header::ETAG, etag)] {
            if let Some(value) = value.and_then(|value| HeaderValue::try_from(value).ok()) {
                response.headers_mut().insert(name, value);
            }
        }
        response
    }
}

impl<T: Serialize> IntoResponse for IdempotentResponse<T> {
    fn into_response(self) -> Response {
        match self {
            IdempotentResponse::Fresh(answer) => answer.into_response(),
            IdempotentResponse::Replayed(stored) => {
                let mut response = json_response(stored.status, stored.body);
                for (name, value) in stored.headers {
                    if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value))
                    {
                        response.headers_mut().insert(name, value);
                    }
                }
                response.headers_mut().insert("idempotent-replayed", HeaderValue::from_static("true"));
                response
            }
        }
    }
}

impl<T: Serialize> IntoResponse for ListResponse<T> {
    fn into_response(self) -> Response {
        match serde_json::to_string(&self.list) {
            Ok(body) => {
                let mut response = json_response(200, body);
                if let Ok(link) = HeaderValue::try_from(self.link) {
                    response.headers_mut().insert(header::LINK, link);
                }
                response
            }
            Err(error) => AppError::bug(format!("cannot write the list: {error}")).into_response(),
        }
    }
}

fn json_response(status: u16, body: String) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = response::Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().reserve(HEADERS_USUAL);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
