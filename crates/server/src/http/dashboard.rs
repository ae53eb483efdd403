//! Serves the dashboard from files embedded in the binary. All page URLs return the same document, and the dashboard's
//! router shows the page in the browser.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Redirect, Response};
use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, StatusCode};

use super::{access_control, docs, pages};
use crate::app::App;

/// A file from `web/dist` that `build.rs` embedded, with its compressed variants.
#[derive(Debug, Clone, Copy)]
struct DashboardFile {
    path: &'static str,
    kind: &'static str,
    etag: &'static str,
    plain: &'static [u8],
    brotli: Option<&'static [u8]>,
    gzip: Option<&'static [u8]>,
}

static FILES: &[DashboardFile] = include!(concat!(env!("OUT_DIR"), "/dashboard_files.rs"));

const DOCUMENT: &str = "/index.html";
/// Directory of files whose names contain a hash of their content.
const ASSETS: &str = "/assets/";
/// URLs of the API, whose errors are problems in JSON for browsers as well.
const API: &str = "/api/";
/// Page URLs that do not belong to an organization. The page URLs of organizations start with `/o/`.
const PAGES: &[&str] = &[
    "/sign-in",
    "/invitation",
    "/reset-password",
    "/device",
    "/confirmed",
    "/profile",
    "/instance/organizations",
];

const FOR_EVER: &str = "public, max-age=31536000, immutable";
const ASK_AGAIN: &str = "no-cache";

/// Marks a response that is the same for any path below a prefix. Such a path may contain anything, so unusual parts
/// are masked in the log.
#[derive(Debug, Clone, Copy)]
pub(super) struct AnyPath;

/// Serves the dashboard at `/`.
pub(super) fn front_page(app: &App, request: &Request) -> Response {
    redirect_to_own_host(app, request).unwrap_or_else(|| document_response(FILES, request.headers()))
}

/// Handles paths that are not API routes: returns a file, a page, or a 404.
pub(super) async fn fallback(State(app): State<Arc<App>>, request: Request) -> Response {
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    let path = request.uri().path();
    if !reads {
        return StatusCode::NOT_FOUND.into_response();
    }
    if is_page(path)
        && let Some(mut response) = redirect_to_own_host(&app, &request)
    {
        response.extensions_mut().insert(AnyPath);
        return response;
    }
    let response = respond(FILES, path, request.headers());
    let is_mistyped_page = response.status() == StatusCode::NOT_FOUND && !path.starts_with(API);
    if is_mistyped_page && is_navigation(request.headers()) {
        // The dashboard's router shows its error page, with a link to the start.
        let mut document = document_response(FILES, request.headers());
        *document.status_mut() = StatusCode::NOT_FOUND;
        document.extensions_mut().insert(AnyPath);
        return document;
    }
    response
}

fn is_page(path: &str) -> bool {
    PAGES.contains(&path) || path.starts_with("/o/")
}

/// Redirects a browser that opens a page at 127.0.0.1 to the dashboard's host name.
fn redirect_to_own_host(app: &App, request: &Request) -> Option<Response> {
    if *request.method() != Method::GET || !is_navigation(request.headers()) {
        return None;
    }
    let dashboard = access_control::dashboard_elsewhere(app, request.headers())?;
    let page = request.uri().path_and_query()?;
    Some(Redirect::temporary(&format!("{dashboard}{page}")).into_response())
}

/// Whether a user opened this URL in a browser. Browsers that do not send `Sec-Fetch-Mode` are recognized by requesting
/// HTML.
fn is_navigation(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    match text("sec-fetch-mode") {
        Some(mode) => mode == "navigate",
        None => text("accept").is_some_and(|accepted| accepted.contains("text/html")),
    }
}

fn respond(files: &[DashboardFile], path: &str, headers: &HeaderMap) -> Response {
    if is_page(path) {
        let mut response = document_response(files, headers);
        response.extensions_mut().insert(AnyPath);
        return response;
    }
    if let Some(page) = docs::respond(path) {
        return page;
    }
    match files.iter().find(|file| file.path == path && path != DOCUMENT) {
        Some(file) => file_response(file, headers),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

fn document_response(files: &[DashboardFile], headers: &HeaderMap) -> Response {
    match files.iter().find(|file| file.path == DOCUMENT) {
        Some(file) => file_response(file, headers),
        None => pages::without_dashboard().into_response(),
    }
}

fn file_response(file: &DashboardFile, headers: &HeaderMap) -> Response {
    let (bytes, encoding) = match (file.brotli, file.gzip) {
        (Some(brotli), _) if accepts(headers, "br") => (brotli, Some("br")),
        (_, Some(gzip)) if accepts(headers, "gzip") => (gzip, Some("gzip")),
        _ => (file.plain, None),
    };
    let mut response = bytes.into_response();
    let cached = if file.path.starts_with(ASSETS) { FOR_EVER } else { ASK_AGAIN };
    let mut set = |name, value| response.headers_mut().insert(name, HeaderValue::from_static(value));
    set(header::CONTENT_TYPE, file.kind);
    set(header::CACHE_CONTROL, cached);
    set(header::ETAG, file.etag);
    set(header::VARY, "accept-encoding");
    if let Some(encoding) = encoding {
        set(header::CONTENT_ENCODING, encoding);
    }
    response
}

/// Whether `Accept-Encoding` lists this encoding without `q=0`.
fn accepts(headers: &HeaderMap, encoding: &str) -> bool {
    let values = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|range| {
        let mut parts = range.split(';').map(str::trim);
        let named = parts.next().is_some_and(|name| name.eq_ignore_ascii_case(encoding));
        named && !parts.any(|part| matches!(part, "q=0" | "q=0.0" | "q=0.00" | "q=0.000"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIST: &[DashboardFile] = &[
        DashboardFile {
            path: "/index.html",
            kind: "text/html; charset=utf-8",
            etag: "W/\"1\"",
            plain: b"page",
            brotli: Some(b"br"),
            gzip: Some(b"gz"),
        },
        DashboardFile {
            path: "/assets/a-1.js",
            kind: "text/javascript; charset=utf-8",
            etag: "W/\"2\"",
            plain: b"code",
            brotli: None,
            gzip: Some(b"gz"),
        },
    ];

    /// Asserts the status, media type, cache control and encoding of the response for a path.
    fn check(path: &str, accepted: &'static str, expected: &str) {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(accepted));
        let response = respond(DIST, path, &headers);
        let shown = |name| response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or("-");
        let found = format!(
            "{} {} {} {}",
            response.status().as_u16(),
            shown(header::CONTENT_TYPE),
            shown(header::CACHE_CONTROL),
            shown(header::CONTENT_ENCODING)
        );
        assert_eq!(found, expected, "{path}, {accepted}");
    }

    #[test]
    fn page_urls_return_one_uncached_document() {
        for path in [
            "/sign-in",
            "/invitation",
            "/reset-password",
            "/device",
            "/profile",
            "/o/acme",
            "/o/acme/environments/shop/qa-1",
        ] {
            check(path, "gzip, br", "200 text/html; charset=utf-8 no-cache br");
        }
        check("/o/acme", "br;q=0, gzip", "200 text/html; charset=utf-8 no-cache gzip");
        check("/o/acme", "", "200 text/html; charset=utf-8 no-cache -");
    }

    #[test]
    fn assets_are_immutable_and_unknown_files_are_404() {
        let kept = "200 text/javascript; charset=utf-8 public, max-age=31536000, immutable";
        check("/assets/a-1.js", "br, gzip", &format!("{kept} gzip"));
        check("/assets/a-1.js", "identity", &format!("{kept} -"));
        for path in ["/assets/b.js", "/index.html", "/o", "/api/v1/o/acme", "/signin", "/assets/a-1.js.gz"] {
            check(path, "br", "404 - - -");
        }
    }

    #[test]
    fn missing_dashboard_build_returns_placeholder_page() {
        let response = respond(&[], "/o/acme", &HeaderMap::new());
        assert_eq!(response.status(), StatusCode::OK);
        assert!(response.headers()[header::CONTENT_TYPE].as_bytes().starts_with(b"text/html"));
    }
}
