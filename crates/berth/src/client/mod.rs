//! Client of the public API.

mod error;
mod fields;
mod login;
mod sse;

use std::io::Read as _;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use berth_api::Data;
use berth_api::page::{List, PAGE_SIZE_MAX};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use ureq::Agent;
use ureq::http::{Method, Request, Response};
use ureq::tls::{RootCerts, TlsConfig};

pub(crate) use error::{ClientError, exit_code};
pub(crate) use login::{RemoteArgs, ServerLogin};

use crate::output::RawJson;

/// Timeout for a whole response. The server holds a long poll for at most 30 seconds.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(90);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const RESPONSE_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// Attempts per request. POST requests carry an idempotency key, so a retry has no second effect.
const ATTEMPTS_MAX: u32 = 4;
const RETRY_BACKOFF: Duration = Duration::from_millis(300);
/// Timeout for the first byte of a streamed response; the stream itself has no timeout.
const FIRST_BYTE_TIMEOUT: Duration = Duration::from_secs(40);
/// Maximum number of records read from a list.
pub(crate) const RECORDS_MAX: usize = 2_000;

#[derive(Clone)]
pub(crate) struct ApiClient {
    agent: Agent,
    login: ServerLogin,
}

/// Any response, also a refusal.
pub(crate) struct AnyReply {
    pub(crate) status: u16,
    pub(crate) etag: Option<String>,
    /// Null if the response has no body.
    pub(crate) body: Value,
}

/// A response: the typed record, and the raw JSON with every member that the server sent.
pub(crate) struct ApiReply<T> {
    pub(crate) data: T,
    pub(crate) raw: RawJson,
    pub(crate) etag: Option<String>,
}

impl ApiClient {
    pub(crate) fn new(login: ServerLogin) -> Self {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = TlsConfig::builder()
            .unversioned_rustls_crypto_provider(provider)
            // Trust the system's certificate store, which includes CAs that an admin has installed.
            .root_certs(RootCerts::PlatformVerifier)
            .build();
        let config = Agent::config_builder()
            .tls_config(tls)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .user_agent(concat!("berth/", env!("CARGO_PKG_VERSION")))
            .build();
        Self { agent: Agent::new_with_config(config), login }
    }

    /// The same client with another token.
    pub(crate) fn with_token(&self, token: &str) -> Self {
        let login = ServerLogin { token: token.to_owned(), ..self.login.clone() };
        Self { agent: self.agent.clone(), login }
    }

    pub(crate) fn server(&self) -> &str {
        &self.login.server
    }

    /// Slug or id of the organization.
    pub(crate) fn organization(&self) -> &str {
        &self.login.organization
    }

    /// URL of a dashboard page.
    pub(crate) fn dashboard_url(&self, path: &str) -> String {
        format!("{}/o/{}{path}", self.login.server, self.login.organization)
    }

    /// URL of an API path, relative to the organization unless it starts with `/api/`.
    fn api_url(&self, path: &str) -> String {
        let ServerLogin { server, organization, .. } = &self.login;
        if path.starts_with("/api/") {
            return format!("{server}{path}");
        }
        format!("{server}/api/v1/organizations/{organization}{path}")
    }

    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<ApiReply<T>> {
        self.request_json(&Method::GET, path, None, &[])
    }

    /// Long-polls until the resource no longer matches `etag`. Returns `None` if it is still unchanged when the poll
    /// ends.
    pub(crate) fn get_if_changed<T: DeserializeOwned>(
        &self,
        path: &str,
        etag: &str,
    ) -> anyhow::Result<Option<ApiReply<T>>> {
        let mark = if path.contains('?') { '&' } else { '?' };
        let waited = self.request_json(
            &Method::GET,
            &format!("{path}{mark}wait=30"),
            None,
            &[("if-none-match", etag)],
        );
        match waited {
            Err(error) if error.downcast_ref::<ClientError>().is_some_and(ClientError::is_not_modified) => {
                Ok(None)
            }
            waited => waited.map(Some),
        }
    }

    pub(crate) fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> anyhow::Result<ApiReply<T>> {
        self.post_if(path, body, None)
    }

    /// Like [`ApiClient::post`], with `If-Match`.
    pub(crate) fn post_if<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
        etag: Option<&str>,
    ) -> anyhow::Result<ApiReply<T>> {
        let key = new_idempotency_key()?;
        let mut headers = vec![("idempotency-key", key.as_str())];
        headers.extend(etag.map(|etag| ("if-match", etag)));
        self.request_json(&Method::POST, path, Some(&serde_json::to_string(body)?), &headers)
    }

    pub(crate) fn put<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> anyhow::Result<ApiReply<T>> {
        self.request_json(&Method::PUT, path, Some(&serde_json::to_string(body)?), &[])
    }

    pub(crate) fn patch<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> anyhow::Result<ApiReply<T>> {
        self.request_json(&Method::PATCH, path, Some(&serde_json::to_string(body)?), &[])
    }

    pub(crate) fn delete<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<ApiReply<T>> {
        self.request_json(&Method::DELETE, path, None, &[])
    }

    /// Sends the request once, with a timeout, for callers that have their own retry loop.
    pub(crate) fn post_once<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
        limit: Duration,
    ) -> anyhow::Result<ApiReply<T>> {
        let (key, body) = (new_idempotency_key()?, serde_json::to_string(body)?);
        let headers = [("idempotency-key", key.as_str())];
        let response = self.send(&Method::POST, path, Some(&body), &headers, Some(limit))?;
        let (text, etag) = self.read_text(response)?;
        parse_reply(&text, etag)
    }

    /// Sends a request and returns the response, whatever its status.
    pub(crate) fn request_any(
        &self,
        method: &Method,
        path: &str,
        body: Option<&Value>,
        if_none_match: Option<&str>,
    ) -> anyhow::Result<AnyReply> {
        let key = new_idempotency_key()?;
        let key = (*method == Method::POST).then_some(("idempotency-key", key.as_str()));
        let headers: Vec<_> =
            key.into_iter().chain(if_none_match.map(|etag| ("if-none-match", etag))).collect();
        let body = body.map(Value::to_string);
        let mut response = self.send_with_retries(method, path, body.as_deref(), &headers)?;
        let etag = response.headers().get("etag").and_then(|it| it.to_str().ok()).map(str::to_owned);
        let text = response.body_mut().with_config().limit(RESPONSE_BYTES_MAX).read_to_string()?;
        let body = match text.is_empty() {
            true => Value::Null,
            false => parse_json(&text)?,
        };
        Ok(AnyReply { status: response.status().as_u16(), etag, body })
    }

    /// Reads the first `count` records of a list, page by page. The raw JSON of the reply has the shape of a single
    /// page.
    pub(crate) fn list<T: DeserializeOwned>(
        &self,
        path: &str,
        count: usize,
    ) -> anyhow::Result<ApiReply<Vec<T>>> {
        let mark = if path.contains('?') { '&' } else { '?' };
        let mut records = Vec::new();
        let mut raws = Vec::new();
        let mut cursor = String::new();
        loop {
            let size = (count - records.len()).min(usize::try_from(PAGE_SIZE_MAX)?);
            let page = format!("{path}{mark}limit={size}{cursor}");
            let (text, _) = self.request_text(&Method::GET, &page, None, &[])?;
            let list: List<T> = parse_json(&text)?;
            if let Value::Array(items) = parse_json::<Value>(&text)?["data"].take() {
                raws.extend(items);
            }
            records.extend(list.data);
            let pagination = list.pagination;
            match pagination.next_cursor {
                Some(next) if pagination.has_more && records.len() < count => {
                    cursor = format!("&cursor={}", percent_encode(&next));
                }
                _ => {
                    let raw = serde_json::json!({ "data": raws, "hasMore": pagination.has_more });
                    let raw = RawJson { value: raw, fields: fields::field_names::<T>() };
                    return Ok(ApiReply { data: records, raw, etag: None });
                }
            }
        }
    }

    /// Returns a reader for a response that is not JSON, for example an export.
    pub(crate) fn get_reader(&self, path: &str) -> anyhow::Result<Box<dyn std::io::Read + Send>> {
        let response = self.send(&Method::GET, path, None, &[], None)?;
        if !response.status().is_success() {
            return Err(self.read_problem(response)?);
        }
        Ok(Box::new(response.into_body().into_reader()))
    }

    /// Opens an event stream after the message with this id.
    pub(crate) fn open_event_stream(
        &self,
        path: &str,
        last_id: Option<&str>,
    ) -> anyhow::Result<sse::SseStream> {
        let mut headers = vec![("accept", "text/event-stream")];
        headers.extend(last_id.map(|id| ("last-event-id", id)));
        let response = self.send(&Method::GET, path, None, &headers, None)?;
        if !response.status().is_success() {
            return Err(self.read_problem(response)?);
        }
        sse::SseStream::new(response.into_body().into_reader()).context("cannot start the stream reader")
    }

    fn request_json<T: DeserializeOwned>(
        &self,
        method: &Method,
        path: &str,
        body: Option<&str>,
        headers: &[(&str, &str)],
    ) -> anyhow::Result<ApiReply<T>> {
        let (text, etag) = self.request_text(method, path, body, headers)?;
        parse_reply(&text, etag)
    }

    fn request_text(
        &self,
        method: &Method,
        path: &str,
        body: Option<&str>,
        headers: &[(&str, &str)],
    ) -> anyhow::Result<(String, Option<String>)> {
        let response = self.send_with_retries(method, path, body, headers)?;
        self.read_text(response)
    }

    fn read_text(&self, mut response: Response<ureq::Body>) -> anyhow::Result<(String, Option<String>)> {
        if !response.status().is_success() {
            return Err(self.read_problem(response)?);
        }
        let etag = response.headers().get("etag").and_then(|it| it.to_str().ok()).map(str::to_owned);
        let text = response.body_mut().with_config().limit(RESPONSE_BYTES_MAX).read_to_string();
        Ok((
            text.with_context(|| {
                format!("the connection to {} was lost during the response", self.login.server)
            })?,
            etag,
        ))
    }

    fn send_with_retries(
        &self,
        method: &Method,
        path: &str,
        body: Option<&str>,
        headers: &[(&str, &str)],
    ) -> anyhow::Result<Response<ureq::Body>> {
        let mut pause = RETRY_BACKOFF;
        for number in 1.. {
            let sent = self.send(method, path, body, headers, Some(RESPONSE_TIMEOUT));
            let again = match &sent {
                Err(_) => true,
                Ok(response) => [502, 503, 504].contains(&response.status().as_u16()),
            };
            if !again || number == ATTEMPTS_MAX {
                return sent;
            }
            std::thread::sleep(pause);
            pause *= 3;
        }
        unreachable!("the last attempt returns")
    }

    fn send(
        &self,
        method: &Method,
        path: &str,
        body: Option<&str>,
        headers: &[(&str, &str)],
        limit: Option<Duration>,
    ) -> anyhow::Result<Response<ureq::Body>> {
        let mut request = Request::builder()
            .method(method)
            .uri(self.api_url(path))
            .header("authorization", format!("Bearer {}", self.login.token));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if body.is_some() {
            request = request.header("content-type", "application/json");
        }
        let sent = match body {
            Some(body) => {
                let request = self.agent.configure_request(request.body(body.to_owned())?);
                self.agent.run(request.timeout_global(limit).build())
            }
            None => {
                let request = self.agent.configure_request(request.body(())?).timeout_global(limit);
                let begin = limit.is_none().then_some(FIRST_BYTE_TIMEOUT);
                self.agent.run(request.timeout_recv_response(begin).build())
            }
        };
        sent.map_err(|error| {
            ClientError::Unreachable { server: self.login.server.clone(), cause: error.to_string() }.into()
        })
    }

    fn read_problem(&self, response: Response<ureq::Body>) -> anyhow::Result<anyhow::Error> {
        let status = response.status().as_u16();
        let mut text = String::new();
        response.into_body().into_reader().take(RESPONSE_BYTES_MAX).read_to_string(&mut text).ok();
        Ok(ClientError::from_response(&self.login.server, status, &text).into())
    }
}

fn parse_reply<T: DeserializeOwned>(text: &str, etag: Option<String>) -> anyhow::Result<ApiReply<T>> {
    let mut raw: Value = parse_json(text)?;
    let Data { data } = parse_json(text)?;
    let raw = RawJson { value: raw["data"].take(), fields: fields::field_names::<T>() };
    Ok(ApiReply { data, raw, etag })
}

fn parse_json<T: DeserializeOwned>(text: &str) -> anyhow::Result<T> {
    serde_json::from_str(text).context("unexpected response; does the server run another version of Berth?")
}

/// Creates an idempotency key; all attempts of one request share it.
fn new_idempotency_key() -> anyhow::Result<String> {
    let mut bytes = [0_u8; 16];
    aws_lc_rs::rand::fill(&mut bytes)
        .map_err(|_| anyhow::anyhow!("cannot get random bytes from the system"))?;
    Ok(format!("cli-{:032x}", u128::from_be_bytes(bytes)))
}

/// Characters that are encoded in a path segment or a query value.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Percent-encodes a path segment or a query value.
pub(crate) fn percent_encode(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}
