//! HTTP client for all outgoing requests of the server, with protection against SSRF.
//!
//! A URL is parsed once, by the same rules that browsers use, and its host is resolved once. The request is refused if
//! any resolved address is not public, unless the configuration allows that address. The client connects only to an
//! address that was checked. Redirects are not followed, and time and response size are limited. Steps on runners do
//! not use this client: restricting their network is the operator's responsibility.

mod address;
mod policy;
mod resolver;
#[cfg(test)]
mod tests;

pub use address::is_public;
pub use policy::{AllowedDestination, EgressPolicy, EgressRefusal, InvalidDestination};
pub use resolver::{LookupFn, system_lookup};

use std::io::Read as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{HeaderMap, Method};
use ureq::Agent;
use ureq::tls::{RootCerts, TlsConfig};
use ureq::unversioned::transport::DefaultConnector;

use resolver::{CheckedResolver, RefusedAddress};

/// Timeout of a request, from the DNS lookup to the last byte of the response.
pub const REQUEST_MAX: Duration = Duration::from_secs(15);
/// Maximum number of bytes read from a response body. The rest is discarded.
pub const ANSWER_BYTES_MAX: u64 = 64 * 1024;

#[derive(Clone)]
pub struct EgressClient {
    policy: Arc<EgressPolicy>,
    agent: Agent,
    /// Timeout of a request. Tests use a shorter one.
    limit: Duration,
}

pub struct PostRequest {
    pub url: String,
    pub headers: Vec<(&'static str, String)>,
    pub body: String,
}

/// A request whose response body the caller needs.
pub struct EgressRequest {
    pub method: Method,
    pub url: String,
    pub headers: Vec<(&'static str, String)>,
    pub body: Option<String>,
    pub answer_bytes_max: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EgressResponse {
    pub status: u16,
    /// Value of the `Retry-After` header, in seconds.
    pub retry_after_s: Option<i64>,
    pub headers: HeaderMap,
    /// The body, up to the size limit.
    pub body: Vec<u8>,
    pub took: Duration,
}

impl EgressResponse {
    /// Returns the value of a header. `None` if it is missing or not ASCII.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// Why there was no response to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EgressFailure {
    pub why: String,
    pub took: Duration,
}

impl EgressClient {
    pub fn new(policy: EgressPolicy, look_up: LookupFn, limit: Duration) -> Self {
        let policy = Arc::new(policy);
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = TlsConfig::builder()
            .unversioned_rustls_crypto_provider(provider)
            // Use the machine's certificate store, which may include the operator's own CA.
            .root_certs(RootCerts::PlatformVerifier)
            .build();
        let config = Agent::config_builder()
            .tls_config(tls)
            .proxy(None)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .max_idle_connections(0)
            .user_agent("berth")
            .timeout_global(Some(limit))
            .build();
        let resolver = CheckedResolver { policy: policy.clone(), look_up };
        Self { policy, agent: Agent::with_parts(config, DefaultConnector::default(), resolver), limit }
    }

    pub fn policy(&self) -> &EgressPolicy {
        &self.policy
    }

    /// Sends the request. Blocks until the response arrives or the request times out.
    pub fn post(&self, post: &PostRequest) -> Result<EgressResponse, EgressFailure> {
        self.post_within(post, self.limit, ANSWER_BYTES_MAX)
    }

    /// Like [`EgressClient::post`], but with limits set by the caller, for slow or large responses.
    pub fn post_within(
        &self,
        post: &PostRequest,
        limit: Duration,
        bytes_max: u64,
    ) -> Result<EgressResponse, EgressFailure> {
        self.request(&Method::POST, &post.url, &post.headers, Some(&post.body), limit, bytes_max)
    }

    /// Like [`EgressClient::post`], for callers that need the response body.
    pub fn send(&self, ask: &EgressRequest) -> Result<EgressResponse, EgressFailure> {
        let body = ask.body.as_deref();
        self.request(&ask.method, &ask.url, &ask.headers, body, self.limit, ask.answer_bytes_max)
    }

    fn request(
        &self,
        method: &Method,
        url: &str,
        headers: &[(&'static str, String)],
        body: Option<&str>,
        limit: Duration,
        answer_bytes_max: u64,
    ) -> Result<EgressResponse, EgressFailure> {
        let began = Instant::now();
        let failed = |why: String| EgressFailure { why, took: began.elapsed() };
        let url = self.policy.check(url).map_err(|why| failed(format!("the URL {why}")))?;
        let request = http::Request::builder().method(method).uri(url.as_str());
        let request =
            headers.iter().fold(request, |request, (name, value)| request.header(*name, value.as_str()));
        let sent = match body {
            Some(body) => request.body(body).map_err(ureq::Error::from).and_then(|request| {
                let request = self.agent.configure_request(request).timeout_global(Some(limit)).build();
                self.agent.run(request)
            }),
            None => request.body(()).map_err(ureq::Error::from).and_then(|request| {
                let request = self.agent.configure_request(request).timeout_global(Some(limit)).build();
                self.agent.run(request)
            }),
        };
        let mut answer = match sent {
            Ok(answer) => answer,
            Err(error) => return Err(failed(explain_error(error, limit))),
        };
        let retry_after = answer.headers().get("retry-after").and_then(|value| value.to_str().ok());
        let retry_after_s = retry_after.and_then(|text| text.trim().parse().ok());
        let status = answer.status().as_u16();
        let headers = answer.headers().clone();
        let mut body = Vec::new();
        // The status has been received, so a truncated body is not an error.
        let _ = answer.body_mut().as_reader().take(answer_bytes_max).read_to_end(&mut body);
        Ok(EgressResponse { status, retry_after_s, headers, body, took: began.elapsed() })
    }
}

/// Returns the error text for the delivery log. The text reveals nothing about the server's own network.
fn explain_error(error: ureq::Error, limit: Duration) -> String {
    match error {
        ureq::Error::Timeout(_) => format!("no response within {} s", limit.as_secs_f32()),
        ureq::Error::HostNotFound => "the host was not found".to_owned(),
        ureq::Error::ConnectionFailed => "the connection failed".to_owned(),
        ureq::Error::Io(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
            "the connection was refused".to_owned()
        }
        ureq::Error::Io(_) => "the connection was lost".to_owned(),
        ureq::Error::Tls(_) | ureq::Error::Rustls(_) => {
            "no trusted TLS connection could be established".to_owned()
        }
        ureq::Error::RedirectFailed | ureq::Error::TooManyRedirects => {
            "it responded with a redirect, which is not followed".to_owned()
        }
        ureq::Error::Other(inner) => match inner.downcast::<RefusedAddress>() {
            Ok(refused) => format!("the URL {refused}"),
            Err(_) => "the request could not be sent".to_owned(),
        },
        _ => "the response is not valid HTTP".to_owned(),
    }
}
