//! Middleware around the router: canonical path, request id, timeout, panic handling, problem bodies, common response
//! headers, metrics and the request log.

use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use berth_api::problem::{Code, ProblemDetails};
use berth_core::client_info::ClientInfo;
use futures_util::FutureExt;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, StatusCode, Uri};
use tower::Service as _;
use tracing::Instrument as _;

use super::access_control::{self, MatchedRoute, RouteTable};
use super::dashboard::AnyPath;
use super::drain::watch_body;
use super::path::{canonical, without_strange_parts};
use super::request_id::{REQUEST_ID, request_id};
use super::respond::OwnErrorBody;
use super::route_builder::RouteInfo;
use super::router;
use super::routes::mcp::MCP_PATH;
use super::routes::remote_locks::{REMOTE_LOCK_PATH, with_error_code};
use super::routes::runner::TRANSFERS;
use crate::app::App;
use crate::auth::tokens::looks_like_token;
use crate::error::AppError;
use crate::limits::{MCP_REQUEST_MAX, REQUEST_MAX, TRANSFER_MAX, URI_BYTES_MAX};

const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
    font-src 'self'; connect-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'self'";

/// Returns the content security policy of a page whose forms may be sent to these sources.
pub(super) fn content_security_policy(form_sources: &str) -> String {
    CONTENT_SECURITY_POLICY.replace("form-action 'self'", &format!("form-action {form_sources}"))
}

/// Data that every request carries as an extension.
#[derive(Debug, Clone)]
pub(crate) struct RequestOrigin {
    /// Appears in the request log, the audit log and problem bodies.
    pub(crate) request_id: String,
    /// The client. Its address is taken from `X-Forwarded-For` if the request came through trusted proxies.
    pub(crate) client: ClientInfo,
}

/// The complete HTTP service: the router with its middleware. Clones share everything.
#[derive(Clone)]
pub struct HttpService {
    app: Arc<App>,
    router: Router,
    doors: Arc<RouteTable>,
    table: Arc<[RouteInfo]>,
}

impl HttpService {
    pub fn new(app: Arc<App>) -> Self {
        let (router, table, _) = router::build(&app);
        let doors = Arc::new(RouteTable::new(&table));
        Self { app, router, doors, table: table.into() }
    }

    /// All routes with the access they require.
    pub fn routes(&self) -> &[RouteInfo] {
        &self.table
    }

    pub async fn handle_request(&self, request: Request<Body>, peer: IpAddr) -> Response {
        let started = Instant::now();
        let (mut request, unread) = watch_body(request);
        let id = request_id(request.headers());
        let asked = RequestSummary {
            method: request.method().clone(),
            path: request.uri().path().to_owned(),
            if_none_match: request.headers().get(header::IF_NONE_MATCH).cloned(),
            problem_as_json: lists_json_alone(request.headers()),
        };
        let address = self.client_address(peer, request.headers());
        let user_agent = request.headers().get(header::USER_AGENT).map(HeaderValue::as_bytes);
        let user_agent = String::from_utf8_lossy(user_agent.unwrap_or_default());
        // It is stored and shown.
        let user_agent = if looks_like_token(&user_agent) { "".into() } else { user_agent };
        let client = ClientInfo::new(address, &user_agent);
        request.extensions_mut().insert(RequestOrigin { request_id: id.clone(), client });
        if asked.path == MCP_PATH {
            // Its tools send requests to this service.
            request.extensions_mut().insert(self.clone());
        }

        let mut route = None;
        let response = match check_host(&request).and_then(|()| canonical_uri(request.uri())) {
            Err(refused) => refused.into_response(),
            Ok(uri) => {
                *request.uri_mut() = uri.clone();
                let matched = self.doors.find(&asked.method, uri.path());
                route = matched.as_ref().map(|matched| matched.route.clone());
                self.route(request, matched).instrument(tracing::info_span!("request", id)).await
            }
        };
        let mut response = self.finish(response, &asked, &id);
        if !unread.drain(response.status()).await {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        let took = started.elapsed();
        self.app.requests.record_request(&asked.method, route, response.status(), took);
        let (status, ms) = (response.status().as_u16(), u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
        // The path of a successful request contains only names of existing records. Any other path may contain a secret
        // that was pasted by mistake.
        let names = status < 400 && response.extensions().get::<AnyPath>().is_none();
        let path = if names { asked.path } else { without_strange_parts(&asked.path) };
        // Runners poll constantly, so their successful requests are logged at debug level.
        if status < 400 && path.starts_with("/api/v1/runner/") {
            tracing::debug!(method = %asked.method, path, status, ms, request_id = id, "answered");
        } else {
            tracing::info!(method = %asked.method, path, status, ms, request_id = id, "answered");
        }
        response
    }

    async fn route(&self, request: Request<Body>, matched: Option<MatchedRoute<'_>>) -> Response {
        // Uploads and downloads by runners may be large, so they have a longer timeout. The idle timeout of the body
        // still applies.
        let limit = match request.uri().path() {
            // A tool may wait for a deployment before there is anything to send.
            MCP_PATH => MCP_REQUEST_MAX,
            path if TRANSFERS.contains(&path) => TRANSFER_MAX,
            _ => REQUEST_MAX,
        };
        let reads = matches!(*request.method(), Method::GET | Method::HEAD);
        let passed = AssertUnwindSafe(self.authorize_and_route(request, matched)).catch_unwind();
        match tokio::time::timeout(limit, passed).await {
            Ok(Ok(response)) => response,
            Ok(Err(_)) => AppError::bug("a handler panicked").into_response(),
            Err(_) if reads => {
                let text = format!("the request took longer than {} s", limit.as_secs());
                AppError::new(Code::RequestTimeout, text).into_response()
            }
            // The transaction may still commit, so the response must not claim that the request failed.
            Err(_) => {
                let text = format!(
                    "the request took longer than {} s; it may or may not have taken effect. Repeat it with the same Idempotency-Key to find out.",
                    limit.as_secs()
                );
                AppError::new(Code::Unavailable, text).into_response()
            }
        }
    }

    /// Checks authentication and authorization, then calls the router.
    async fn authorize_and_route(
        &self,
        request: Request<Body>,
        matched: Option<MatchedRoute<'_>>,
    ) -> Response {
        let (mut parts, body) = request.into_parts();
        if let Some(matched) = matched
            && let Err(refused) = access_control::authorize_request(&self.app, &matched, &mut parts).await
        {
            return refused.into_response();
        }
        let Ok(response) = self.router.clone().call(Request::from_parts(parts, body)).await;
        response
    }

    fn client_address(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let trusted = |address: &IpAddr| self.app.config.trusts(*address);
        if !trusted(&peer) {
            return peer;
        }
        // Read the header from right to left: each trusted proxy vouches for the address before its own. Stop at an
        // address that cannot be parsed.
        let forwarded = headers.get_all("x-forwarded-for").iter().filter_map(|value| value.to_str().ok());
        let hops: Vec<&str> = forwarded.flat_map(|value| value.split(',')).map(str::trim).collect();
        let mut known = peer;
        for hop in hops.into_iter().rev() {
            let Some(address) = hop_address(hop) else { break };
            known = address;
            if !trusted(&address) {
                break;
            }
        }
        known
    }

    fn finish(&self, mut response: Response, asked: &RequestSummary, id: &str) -> Response {
        if let Some(problem) = response.extensions_mut().remove::<ProblemDetails>() {
            response = render_problem(problem, response.headers(), asked, id);
        } else if !has_own_body(&response)
            && (response.status().is_client_error() || response.status().is_server_error())
        {
            // The router itself created this response, for an unknown path or a method that is not allowed.
            let problem = problem_for_status(response.status(), &asked.method);
            response = render_problem(problem, response.headers(), asked, id);
        }
        if asked.is_unchanged(&response) {
            response = not_modified(&response);
        }
        let headers = response.headers_mut();
        // Keep the headers that handlers have set: stricter policies, and caching for files of the dashboard.
        if !headers.contains_key(header::CONTENT_SECURITY_POLICY) {
            headers
                .insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(CONTENT_SECURITY_POLICY));
        }
        if !headers.contains_key(header::CACHE_CONTROL) {
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        }
        let mut set = |name, value| headers.insert(name, HeaderValue::from_static(value));
        set(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
        set(header::REFERRER_POLICY, "no-referrer");
        if self.app.config.is_https() {
            set(header::STRICT_TRANSPORT_SECURITY, "max-age=31536000");
        }
        if let Ok(value) = HeaderValue::from_str(id) {
            headers.insert(REQUEST_ID.clone(), value);
        }
        response
    }
}

/// Parses one entry of `X-Forwarded-For`: `203.0.113.9`, `203.0.113.9:51234`, `2001:db8::1` or `[2001:db8::1]:51234`.
fn hop_address(hop: &str) -> Option<IpAddr> {
    let bare = hop.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(hop);
    let with_port = || hop.parse::<std::net::SocketAddr>().ok().map(|address| address.ip());
    bare.parse::<IpAddr>().ok().or_else(with_port).map(|address| address.to_canonical())
}

/// The request data that is needed to finish the response.
struct RequestSummary {
    method: Method,
    path: String,
    if_none_match: Option<HeaderValue>,
    problem_as_json: bool,
}

impl RequestSummary {
    fn is_unchanged(&self, response: &Response) -> bool {
        let (Some(known), Some(etag)) = (&self.if_none_match, response.headers().get(header::ETAG)) else {
            return false;
        };
        let reads = matches!(self.method, Method::GET | Method::HEAD);
        let (Ok(known), Ok(etag)) = (known.to_str(), etag.to_str()) else { return false };
        let weak = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
        reads
            && response.status() == StatusCode::OK
            && known.split(',').any(|tag| tag.trim() == "*" || weak(tag) == weak(etag))
    }
}

/// Requires exactly one `Host` header (RFC 9112). With two, a proxy and this server could use different hosts.
fn check_host(request: &Request<Body>) -> Result<(), AppError> {
    let hosts = request.headers().get_all(header::HOST).iter().count();
    if hosts > 1 || (hosts == 0 && request.version() == http::Version::HTTP_11) {
        return Err(AppError::new(Code::InvalidRequest, "a request must have exactly one Host header"));
    }
    Ok(())
}

fn canonical_uri(uri: &Uri) -> Result<Uri, AppError> {
    let bad = |detail: &str| AppError::new(Code::InvalidRequest, detail);
    if uri.path_and_query().map_or(0, |whole| whole.as_str().len()) > URI_BYTES_MAX {
        return Err(bad(&format!("the URL is longer than {URI_BYTES_MAX} bytes")));
    }
    let path = canonical(uri.path()).map_err(bad)?;
    if path == uri.path() && uri.authority().is_none() {
        return Ok(uri.clone());
    }
    let whole = match uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path.into_owned(),
    };
    whole.parse().map_err(|_| bad("the URL is not valid"))
}

/// Builds a 304 with the caching headers of the full response.
fn not_modified(whole: &Response) -> Response {
    let mut response = StatusCode::NOT_MODIFIED.into_response();
    for name in [header::ETAG, header::CACHE_CONTROL, header::VARY] {
        if let Some(value) = whole.headers().get(&name) {
            response.headers_mut().insert(name, value.clone());
        }
    }
    if whole.extensions().get::<AnyPath>().is_some() {
        response.extensions_mut().insert(AnyPath);
    }
    response
}

fn render_problem(
    mut problem: ProblemDetails,
    before: &HeaderMap,
    asked: &RequestSummary,
    id: &str,
) -> Response {
    problem.instance.clone_from(&asked.path);
    id.clone_into(&mut problem.request_id);
    if asked.path.starts_with(REMOTE_LOCK_PATH) {
        problem = with_error_code(problem);
    }
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let retry_after = problem.more.get("retryAfterSeconds").and_then(serde_json::Value::as_u64);
    let body = serde_json::to_vec(&problem).unwrap_or_default();
    let mut response = (status, body).into_response();
    let headers = response.headers_mut();
    let media_type = if asked.problem_as_json { "application/json" } else { "application/problem+json" };
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    if let Some(allow) = before.get(header::ALLOW) {
        headers.insert(header::ALLOW, allow.clone());
    }
    match status {
        StatusCode::UNAUTHORIZED => {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            let seconds = retry_after.unwrap_or(1);
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
            if status == StatusCode::TOO_MANY_REQUESTS {
                let left = format!("\"default\";r=0;t={seconds}");
                HeaderValue::from_str(&left).map(|left| headers.insert("ratelimit", left)).ok();
            }
        }
        _ => {
            retry_after.map(|seconds| headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds)));
        }
    }
    response
}

/// Whether the response is an HTML page, such as the one for a failed login at an identity provider, or an error of
/// another protocol.
fn has_own_body(response: &Response) -> bool {
    response.extensions().get::<OwnErrorBody>().is_some()
        || response
            .headers()
            .get(header::CONTENT_TYPE)
            .is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"))
}

fn problem_for_status(status: StatusCode, method: &Method) -> ProblemDetails {
    match status {
        StatusCode::NOT_FOUND => ProblemDetails::new(Code::NotFound, "there is nothing at this path"),
        StatusCode::METHOD_NOT_ALLOWED => {
            ProblemDetails::new(Code::MethodNotAllowed, format!("{method} is not allowed here"))
        }
        other => {
            tracing::error!(status = other.as_u16(), "error response without a problem body");
            ProblemDetails::new(Code::Internal, "internal error")
        }
    }
}

/// Whether the client accepts `application/json` but does not list `application/problem+json`, which it may not
/// support.
fn lists_json_alone(headers: &HeaderMap) -> bool {
    let accepted: Vec<&str> =
        headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
    let accepts = |wanted: &str| {
        let ranges = accepted.iter().flat_map(|value| value.split(','));
        ranges.filter_map(|range| range.split(';').next()).any(|range| range.trim() == wanted)
    };
    accepts("application/json") && !accepts("application/problem+json")
}

#[cfg(test)]
mod tests {
    use super::hop_address;

    #[test]
    fn forwarded_hop_is_parsed_with_and_without_port() {
        let shown = |hop: &str| hop_address(hop).map(|address| address.to_string());
        for (hop, address) in [
            ("203.0.113.9", Some("203.0.113.9")),
            ("203.0.113.9:51234", Some("203.0.113.9")),
            ("::ffff:203.0.113.9", Some("203.0.113.9")),
            ("2001:db8::1", Some("2001:db8::1")),
            ("[2001:db8::1]", Some("2001:db8::1")),
            ("[2001:db8::1]:443", Some("2001:db8::1")),
            ("unknown", None),
            ("_hidden", None),
            ("", None),
        ] {
            assert_eq!(shown(hop).as_deref(), address, "{hop}");
        }
    }
}
