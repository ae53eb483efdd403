//! HTTP client of a remote runner.

use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use berth_api::runner::LinkError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use ureq::{Agent, Body, SendBody, http};

/// Maximum size of a JSON response. Assignments can be large, because they contain secrets and parameters.
const ANSWER_BYTES_MAX: u64 = 64 * 1024 * 1024;
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// How long an idle connection is kept. Shorter than the server's idle timeout of ten seconds.
const IDLE_MAX: Duration = Duration::from_secs(5);

/// HTTP client for the server's runner API.
pub struct ServerClient {
    agent: Agent,
    /// Base URL of the server, without a trailing slash.
    server: String,
    bearer: String,
    is_rejected: AtomicBool,
}

/// Why a request did not succeed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestError {
    /// The server cannot be reached, or cannot handle the request now.
    Unavailable(String),
    /// The server rejected the credential. The text is shown to users.
    Unauthenticated(String),
    /// The server refused the request. The text is shown to users.
    Refused(String),
}

impl std::fmt::Display for RequestError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RequestError::Unavailable(text)
            | RequestError::Unauthenticated(text)
            | RequestError::Refused(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for RequestError {}

impl From<RequestError> for LinkError {
    fn from(answered: RequestError) -> Self {
        match answered {
            RequestError::Unavailable(text) => LinkError::Unavailable(text),
            // Retrying would not help, so the runner exits.
            RequestError::Unauthenticated(text) | RequestError::Refused(text) => LinkError::Refused(text),
        }
    }
}

#[derive(serde::Deserialize)]
struct ResponseData<T> {
    data: T,
}

impl ServerClient {
    /// `bearer` is the runner's credential, or a registration token.
    pub fn new(server: &str, bearer: &str) -> Self {
        let config =
            crate::http::client_config().timeout_connect(Some(CONNECT_MAX)).max_idle_age(IDLE_MAX).build();
        Self {
            agent: Agent::new_with_config(config),
            server: server.trim_end_matches('/').to_owned(),
            bearer: bearer.to_owned(),
            is_rejected: AtomicBool::new(false),
        }
    }

    /// Whether the server has rejected the credential.
    pub fn is_rejected(&self) -> bool {
        self.is_rejected.load(Ordering::Relaxed)
    }

    /// Sends a JSON request and parses the response. `limit` is the timeout for both.
    pub fn post_json<T: DeserializeOwned>(
        &self,
        what: &str,
        said: &impl Serialize,
        limit: Duration,
    ) -> Result<T, RequestError> {
        let body = serde_json::to_vec(said).map_err(|error| RequestError::Refused(error.to_string()))?;
        let request = self.post(what, "application/json").config().timeout_global(Some(limit)).build();
        self.read_response(request.send(&body[..]))
    }

    pub(super) fn send_bytes<T: DeserializeOwned>(
        &self,
        what: &str,
        bytes: &[u8],
        limit: Duration,
    ) -> Result<T, RequestError> {
        let request = self.post(what, "application/octet-stream");
        self.read_response(request.config().timeout_global(Some(limit)).build().send(bytes))
    }

    /// Sends a request whose body has a known length and is read from a reader.
    pub(super) fn send_reader<T: DeserializeOwned>(
        &self,
        what: &str,
        (body, length): (impl Read + 'static, u64),
        limit: Duration,
    ) -> Result<T, RequestError> {
        let request = self.post(what, "application/zstd").header("content-length", length);
        let request = request.config().timeout_global(Some(limit)).build();
        self.read_response(request.send(SendBody::from_owned_reader(body)))
    }

    pub(super) fn fetch(&self, what: &str, limit: Duration) -> Result<impl Read + use<>, RequestError> {
        let request =
            self.agent.get(self.url(what)).header("authorization", format!("Bearer {}", self.bearer));
        let answer = request.config().timeout_global(Some(limit)).build().call();
        Ok(self.check_status(answer)?.into_body().into_reader())
    }

    fn post(&self, what: &str, media_type: &str) -> ureq::RequestBuilder<ureq::typestate::WithBody> {
        let request = self.agent.post(self.url(what)).header("content-type", media_type);
        request.header("authorization", format!("Bearer {}", self.bearer))
    }

    fn url(&self, what: &str) -> String {
        format!("{}/api/v1/runner/{what}", self.server)
    }

    fn read_response<T: DeserializeOwned>(
        &self,
        answer: Result<http::Response<Body>, ureq::Error>,
    ) -> Result<T, RequestError> {
        let mut answer = self.check_status(answer)?;
        let bytes = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec();
        let bytes =
            bytes.map_err(|error| RequestError::Unavailable(format!("the response was cut off: {error}")))?;
        let read: ResponseData<T> = serde_json::from_slice(&bytes)
            .map_err(|error| RequestError::Unavailable(format!("the response cannot be parsed: {error}")))?;
        Ok(read.data)
    }

    fn check_status(
        &self,
        answer: Result<http::Response<Body>, ureq::Error>,
    ) -> Result<http::Response<Body>, RequestError> {
        let mut answer = answer.map_err(|error| {
            RequestError::Unavailable(format!("{} cannot be reached: {error}", self.server))
        })?;
        let status = answer.status().as_u16();
        if status == 200 {
            return Ok(answer);
        }
        let problem =
            answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec().unwrap_or_default();
        let problem: serde_json::Value = serde_json::from_slice(&problem).unwrap_or_default();
        let detail = problem["detail"].as_str();
        // The response does not come from Berth, but probably from a proxy in front of it.
        let Some(detail) = detail else {
            return Err(RequestError::Unavailable(format!(
                "{} responded with {status}, but not as a Berth server does",
                self.server
            )));
        };
        Err(match status {
            401 => {
                self.is_rejected.store(true, Ordering::Relaxed);
                RequestError::Unauthenticated(detail.to_owned())
            }
            408 | 429 | 500..=599 => {
                RequestError::Unavailable(format!("the server responded with {status}: {detail}"))
            }
            _ => RequestError::Refused(detail.to_owned()),
        })
    }
}
