//! HTTP client for the `openidconnect` crate, on top of `egress`.

use berth_engine::egress::{EgressClient, EgressRequest};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName};
use openidconnect::{HttpRequest, HttpResponse, SyncHttpClient};

/// Maximum size of a response: a discovery document, a key set or tokens.
const ANSWER_BYTES_MAX: u64 = 1024 * 1024;

/// Blocks until the response arrives or the request times out.
pub(super) struct ProviderHttpClient<'a>(pub(super) &'a EgressClient);

/// Why there was no usable response.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct ProviderHttpError(String);

impl SyncHttpClient for ProviderHttpClient<'_> {
    type Error = ProviderHttpError;

    fn call(&self, request: HttpRequest) -> Result<HttpResponse, ProviderHttpError> {
        let (parts, body) = request.into_parts();
        let header = |name: HeaderName, key: &'static str| {
            let value = parts.headers.get(name)?.to_str().ok()?;
            Some((key, value.to_owned()))
        };
        let headers = [
            header(ACCEPT, "accept"),
            header(AUTHORIZATION, "authorization"),
            header(CONTENT_TYPE, "content-type"),
        ];
        let body = match &parts.method {
            &http::Method::POST => Some(String::from_utf8(body).map_err(describe_error)?),
            _ => None,
        };
        let url = parts.uri.to_string();
        let headers = headers.into_iter().flatten().collect();
        let ask =
            EgressRequest { method: parts.method, url, headers, body, answer_bytes_max: ANSWER_BYTES_MAX };
        let answer = self.0.send(&ask).map_err(|failed| ProviderHttpError(failed.why))?;
        // An overloaded or broken provider says nothing about the account.
        if answer.status >= 500 || answer.status == 429 {
            return Err(ProviderHttpError(format!("it responded with status {}", answer.status)));
        }
        http::Response::builder().status(answer.status).body(answer.body).map_err(describe_error)
    }
}

fn describe_error(error: impl std::fmt::Display) -> ProviderHttpError {
    ProviderHttpError(error.to_string())
}
