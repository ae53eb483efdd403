//! The seam to the public API.

use http::Method;
use serde_json::Value;

/// A client of the public API with the caller's token and organization.
pub trait RestApi: Clone + Send + Sync + 'static {
    /// Sends a request. Fails only if there is no response; a refusal is a response.
    fn send(&self, request: RestRequest) -> impl Future<Output = Result<RestResponse, String>> + Send;
}

#[derive(Debug, Clone)]
pub struct RestRequest {
    pub method: Method,
    /// Path and query, relative to the organization: `/deployments?limit=20`.
    pub path: String,
    pub body: Option<Value>,
    pub if_none_match: Option<String>,
}

#[derive(Debug, Clone)]
pub struct RestResponse {
    pub status: u16,
    pub etag: Option<String>,
    /// Null if the response has no body.
    pub body: Value,
}

impl RestRequest {
    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self { method: Method::GET, path: path.into(), body: None, if_none_match: None }
    }

    pub(crate) fn post(path: impl Into<String>, body: Value) -> Self {
        Self { method: Method::POST, path: path.into(), body: Some(body), if_none_match: None }
    }

    pub(crate) fn delete(path: impl Into<String>) -> Self {
        Self { method: Method::DELETE, ..Self::get(path) }
    }
}

/// Percent-encodes a path segment or a query value.
pub(crate) fn percent_encode(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                escaped.push(char::from(byte));
            }
            byte => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}
