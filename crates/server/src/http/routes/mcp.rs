//! Endpoint of the Model Context Protocol (MCP), streamable HTTP.

use std::net::IpAddr;
use std::sync::Arc;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use berth_api::problem::Code;
use berth_mcp::{RestApi, RestRequest, RestResponse};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{StatusCode, Version};
use http_body_util::{BodyExt as _, Full, Limited};
use serde_json::Value;

use crate::app::App;
use crate::auth::authorize::AuthMethod;
use crate::error::AppError;
use crate::http::access_control::{RequireCaller, check_page_origin, request_origin};
use crate::http::body::read_raw;
use crate::http::edge::HttpService;
use crate::http::respond::OwnErrorBody;
use crate::limits::{JSON_BODY_BYTES_MAX, MCP_RESPONSE_BYTES_MAX};

/// Path of the endpoint. The OpenAPI document leaves it out, because it belongs to another protocol.
pub const MCP_PATH: &str = "/mcp";

/// Receive a message of an MCP client. The tools call the API with the client's token.
#[utoipa::path(post, operation_id = "callMcp", path = "/mcp", tag = "server",
    responses((status = 200, description = "The response of the MCP server", body = Object)))]
pub(crate) async fn call_mcp(
    State(app): State<Arc<App>>,
    RequireCaller(who): RequireCaller,
    Extension(service): Extension<HttpService>,
    request: Request,
) -> Result<Response, AppError> {
    // A cookie is not enough: the organization is the token's, and the token is passed on.
    let AuthMethod::Token { membership, .. } = &who.via else {
        return Err(AppError::unauthenticated(
            "the MCP endpoint requires an API token: send Authorization: Bearer <token>",
        ));
    };
    check_page_origin(&app, request.headers())?;
    let slot = app.take_stream_of(&who)?;
    let (parts, body) = request.into_parts();
    let content_type = parts.headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    let is_json = content_type.is_some_and(|kind| kind.starts_with(b"application/json"));
    let api = RouterApi {
        service,
        organization: membership.org_slug.to_string(),
        headers: Arc::new(forwarded_headers(&parts.headers, &who.request_id)),
        address: request_origin(&parts.extensions)?.client.address(),
    };
    let body = Full::new(Bytes::from(read_raw(body, JSON_BODY_BYTES_MAX).await?));
    let request = Request::from_parts(parts, body);
    let shutdown = app.services.shutdown.child_token();
    let response = Box::pin(berth_mcp::respond_over_http(api, request, shutdown)).await;
    if response.status().is_success() {
        // The slot is free when the response has been sent.
        return Ok(response.map(|body| {
            Body::new(body.map_frame(move |frame| {
                let _ = &slot;
                frame
            }))
        }));
    }
    to_error_response(response.map(Body::new), is_json).await
}

/// Returns the response with the error of the protocol in its body, or a problem if it has only a text. `is_json` is
/// whether the request has the media type of JSON.
async fn to_error_response(mut response: Response, is_json: bool) -> Result<Response, AppError> {
    let status = response.status();
    if response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == "application/json") {
        response.extensions_mut().insert(OwnErrorBody);
        return Ok(response);
    }
    let text = Limited::new(response.into_body(), MCP_RESPONSE_BYTES_MAX).collect().await;
    let text = text.map(|text| String::from_utf8_lossy(&text.to_bytes()).into_owned()).unwrap_or_default();
    let code = match status {
        StatusCode::PAYLOAD_TOO_LARGE => Code::BodyTooLarge,
        // rmcp responds with 415 to a body that is not a JSON-RPC message as well.
        StatusCode::UNSUPPORTED_MEDIA_TYPE if !is_json => Code::UnsupportedMediaType,
        status if status.is_server_error() => {
            tracing::debug!(text, "MCP request was not answered");
            return Err(AppError::new(Code::Unavailable, "the server is stopping; repeat the request"));
        }
        _ => Code::InvalidRequest,
    };
    Err(AppError::new(code, text))
}

/// Headers of the requests that tools send: the credentials, and what the audit log records about the client.
fn forwarded_headers(sent: &HeaderMap, request_id: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for name in [header::AUTHORIZATION, header::HOST, header::USER_AGENT] {
        if let Some(value) = sent.get(&name) {
            headers.insert(name, value.clone());
        }
    }
    if let Ok(id) = HeaderValue::from_str(request_id) {
        headers.insert(HeaderName::from_static("x-request-id"), id);
    }
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
    headers
}

/// The public API, called through this server's own router with the caller's token. Authentication, authorization, rate
/// limits and the audit log apply as to any request.
#[derive(Clone)]
struct RouterApi {
    service: HttpService,
    organization: String,
    headers: Arc<HeaderMap>,
    address: IpAddr,
}

impl RestApi for RouterApi {
    async fn send(&self, request: RestRequest) -> Result<RestResponse, String> {
        let uri = format!("/api/v1/organizations/{}{}", self.organization, request.path);
        let body = request.body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
        let mut asked = Request::builder().method(request.method).uri(uri).version(Version::HTTP_11);
        if let Some(headers) = asked.headers_mut() {
            headers.clone_from(&self.headers);
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            if let Some(etag) = request.if_none_match.and_then(|etag| HeaderValue::try_from(etag).ok()) {
                headers.insert(header::IF_NONE_MATCH, etag);
            }
        }
        let asked = asked.body(body).map_err(|error| format!("the request is not valid: {error}"))?;
        let response = Box::pin(self.service.handle_request(asked, self.address)).await;
        let (parts, body) = response.into_parts();
        let text = Limited::new(body, MCP_RESPONSE_BYTES_MAX).collect().await;
        let text = text.map_err(|_| format!("the response is larger than {MCP_RESPONSE_BYTES_MAX} bytes"))?;
        let etag = parts.headers.get(header::ETAG).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let body = serde_json::from_slice(&text.to_bytes()).unwrap_or(Value::Null);
        Ok(RestResponse { status: parts.status.as_u16(), etag, body })
    }
}
