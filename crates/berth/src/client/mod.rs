//! Client of the public API.

mod error;
mod login;
mod sse;

use std::io::Read as _;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use berth_api::Data;
use berth_api::page::{List, PAGE_SIZE_MAX};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use ureq::Agent;
use ureq::http::{Method, Request, Response};
use ureq::tls::{RootCerts, TlsConfig};

pub(crate) use error::{Failure, exit_code};
pub(crate) use login::{Login, Remote};

/// Timeout for a whole response. The server holds a long poll for at most 30 seconds.
const ANSWER_MAX: Duration = Duration::from_secs(90);
const CONNECT_MAX: Duration = Duration::from_secs(10);
const ANSWER_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// Attempts per request. POST requests carry an idempotency key, so a retry has no second effect.
const TRIES_MAX: u32 = 4;
const TRY_AGAIN: Duration = Duration::from_millis(300);
/// Timeout for the first byte of a stream, which has no overall timeout.
const BEGIN_MAX: Duration = Duration::from_secs(40);
/// Maximum number of records read from a list.
pub(crate) const RECORDS_MAX: usize = 2_000;

#[derive(Clone)]
pub(crate) struct Client {
    agent: Agent,
    login: Login,
}

/// A response: the typed record, and the raw JSON with every member that the server sent.
pub(crate) struct Reply<T> {
    pub(crate) data: T,
    pub(crate) raw: Value,
    pub(crate) etag: Option<String>,
}

impl Client {
    pub(crate) fn new(login: Login) -> Self {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = TlsConfig::builder()
            .unversioned_rustls_crypto_provider(provider)
            // Includes certificate authorities that the machine's administrator has installed.
            .root_certs(RootCerts::PlatformVerifier)
            .build();
        let config = Agent::config_builder()
            .tls_config(tls)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .timeout_connect(Some(CONNECT_MAX))
            .user_agent(concat!("berth/", env!("CARGO_PKG_VERSION")))
            .build();
        Self { agent: Agent::new_with_config(config), login }
    }

    /// URL of a dashboard page.
    pub(crate) fn page(&self, path: &str) -> String {
        format!("{}/o/{}{path}", self.login.server, self.login.organization)
    }

    /// URL of an API path, relative to the organization unless it starts with `/api/`.
    fn address(&self, path: &str) -> String {
        let Login { server, organization, .. } = &self.login;
        if path.starts_with("/api/") {
            return format!("{server}{path}");
        }
        format!("{server}/api/v1/organizations/{organization}{path}")
    }

    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<Reply<T>> {
        self.ask(&Method::GET, path, None, &[])
    }

    /// Long-polls until the resource no longer matches `etag`; `None` if it is unchanged.
    pub(crate) fn changed<T: DeserializeOwned>(
        &self,
        path: &str,
        etag: &str,
    ) -> anyhow::Result<Option<Reply<T>>> {
        let mark = if path.contains('?') { '&' } else { '?' };
        let waited =
            self.ask(&Method::GET, &format!("{path}{mark}wait=30"), None, &[("if-none-match", etag)]);
        match waited {
            Err(error) if error.downcast_ref::<Failure>().is_some_and(Failure::is_unchanged) => Ok(None),
            waited => waited.map(Some),
        }
    }

    pub(crate) fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> anyhow::Result<Reply<T>> {
        self.post_if(path, body, None)
    }

    /// Like [`Client::post`], with `If-Match`.
    pub(crate) fn post_if<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
        etag: Option<&str>,
    ) -> anyhow::Result<Reply<T>> {
        let key = fresh_key()?;
        let mut headers = vec![("idempotency-key", key.as_str())];
        headers.extend(etag.map(|etag| ("if-match", etag)));
        self.ask(&Method::POST, path, Some(&serde_json::to_string(body)?), &headers)
    }

    pub(crate) fn put<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> anyhow::Result<Reply<T>> {
        self.ask(&Method::PUT, path, Some(&serde_json::to_string(body)?), &[])
    }

    pub(crate) fn delete<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<Reply<T>> {
        self.ask(&Method::DELETE, path, None, &[])
    }

    /// Sends the request once, with a timeout; for callers that retry on their own.
    pub(crate) fn post_once<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
        limit: Duration,
    ) -> anyhow::Result<Reply<T>> {
        let (key, body) = (fresh_key()?, serde_json::to_string(body)?);
        let headers = [("idempotency-key", key.as_str())];
        let response = self.send(&Method::POST, path, Some(&body), &headers, Some(limit))?;
        let (text, etag) = self.text_of(response)?;
        reply(&text, etag)
    }

    /// Reads the first `count` records of a list, page by page. The raw value has the shape of one page.
    pub(crate) fn list<T: DeserializeOwned>(
        &self,
        path: &str,
        count: usize,
    ) -> anyhow::Result<Reply<Vec<T>>> {
        let mark = if path.contains('?') { '&' } else { '?' };
        let mut records = Vec::new();
        let mut raws = Vec::new();
        let mut cursor = String::new();
        loop {
            let size = (count - records.len()).min(usize::try_from(PAGE_SIZE_MAX)?);
            let page = format!("{path}{mark}limit={size}{cursor}");
            let (text, _) = self.answer(&Method::GET, &page, None, &[])?;
            let list: List<T> = read(&text)?;
            if let Value::Array(items) = read::<Value>(&text)?["data"].take() {
                raws.extend(items);
            }
            records.extend(list.data);
            let pagination = list.pagination;
            match pagination.next_cursor {
                Some(next) if pagination.has_more && records.len() < count => {
                    cursor = format!("&cursor={}", escaped(&next));
                }
                _ => {
                    let raw = serde_json::json!({ "data": raws, "hasMore": pagination.has_more });
                    return Ok(Reply { data: records, raw, etag: None });
                }
            }
        }
    }

    /// Streams a response that is not JSON, for example an export.
    pub(crate) fn bytes(&self, path: &str) -> anyhow::Result<Box<dyn std::io::Read + Send>> {
        let response = self.send(&Method::GET, path, None, &[], None)?;
        if !response.status().is_success() {
            return Err(self.refused(response)?);
        }
        Ok(Box::new(response.into_body().into_reader()))
    }

    /// Opens an event stream after the message with this id.
    pub(crate) fn follow(&self, path: &str, last_id: Option<&str>) -> anyhow::Result<sse::Messages> {
        let mut headers = vec![("accept", "text/event-stream")];
        headers.extend(last_id.map(|id| ("last-event-id", id)));
        let response = self.send(&Method::GET, path, None, &headers, None)?;
        if !response.status().is_success() {
            return Err(self.refused(response)?);
        }
        sse::Messages::new(response.into_body().into_reader()).context("cannot start the stream reader")
    }

    fn ask<T: DeserializeOwned>(
        &self,
        method: &Method,
        path: &str,
        body: Option<&str>,
        headers: &[(&str, &str)],
    ) -> anyhow::Result<Reply<T>> {
        let (text, etag) = self.answer(method, path, body, headers)?;
        reply(&text, etag)
    }

    fn answer(
        &self,
        method: &Method,
        path: &str,
        body: Option<&str>,
        headers: &[(&str, &str)],
    ) -> anyhow::Result<(String, Option<String>)> {
        let response = self.send_until_answered(method, path, body, headers)?;
        self.text_of(response)
    }

    fn text_of(&self, mut response: Response<ureq::Body>) -> anyhow::Result<(String, Option<String>)> {
        if !response.status().is_success() {
            return Err(self.refused(response)?);
        }
        let etag = response.headers().get("etag").and_then(|it| it.to_str().ok()).map(str::to_owned);
        let text = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string();
        Ok((
            text.with_context(|| {
                format!("the connection to {} was lost during the response", self.login.server)
            })?,
            etag,
        ))
    }

    fn send_until_answered(
        &self,
        method: &Method,
        path: &str,
        body: Option<&str>,
        headers: &[(&str, &str)],
    ) -> anyhow::Result<Response<ureq::Body>> {
        let mut pause = TRY_AGAIN;
        for number in 1.. {
            let sent = self.send(method, path, body, headers, Some(ANSWER_MAX));
            let again = match &sent {
                Err(_) => true,
                Ok(response) => [502, 503, 504].contains(&response.status().as_u16()),
            };
            if !again || number == TRIES_MAX {
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
            .uri(self.address(path))
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
                let begin = limit.is_none().then_some(BEGIN_MAX);
                self.agent.run(request.timeout_recv_response(begin).build())
            }
        };
        sent.map_err(|error| {
            Failure::Unreachable { server: self.login.server.clone(), cause: error.to_string() }.into()
        })
    }

    fn refused(&self, response: Response<ureq::Body>) -> anyhow::Result<anyhow::Error> {
        let status = response.status().as_u16();
        let mut text = String::new();
        response.into_body().into_reader().take(ANSWER_BYTES_MAX).read_to_string(&mut text).ok();
        Ok(Failure::answered(&self.login.server, status, &text).into())
    }
}

fn reply<T: DeserializeOwned>(text: &str, etag: Option<String>) -> anyhow::Result<Reply<T>> {
    let mut raw: Value = read(text)?;
    let Data { data } = read(text)?;
    Ok(Reply { data, raw: raw["data"].take(), etag })
}

fn read<T: DeserializeOwned>(text: &str) -> anyhow::Result<T> {
    serde_json::from_str(text).context("unexpected response; does the server run another version of Berth?")
}

/// Creates an idempotency key; all attempts of one request share it.
fn fresh_key() -> anyhow::Result<String> {
    let mut bytes = [0_u8; 16];
    aws_lc_rs::rand::fill(&mut bytes)
        .map_err(|_| anyhow::anyhow!("cannot get random bytes from the system"))?;
    Ok(format!("cli-{:032x}", u128::from_be_bytes(bytes)))
}

/// Percent-encodes a path segment or a query value.
pub(crate) fn escaped(text: &str) -> String {
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
