//! The few pages that the server writes itself: what a problem code means, and how to get the dashboard.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::response::{Html, Response};
use berth_api::problem::Code;

use super::{dashboard, docs};
use crate::app::App;
use crate::error::AppError;

/// Get the dashboard.
#[utoipa::path(get, operation_id = "getFrontPage", path = "/", tag = "pages", responses((status = 200, content_type = "text/html", body = String),
        (status = 307, description = "The dashboard is served at another URL")))]
pub(super) async fn index(State(app): State<Arc<App>>, request: Request) -> Response {
    dashboard::front(&app, &request)
}

/// Instead of the dashboard, in a binary that was built before it was.
pub(super) fn without_dashboard() -> Html<String> {
    page(
        "Berth",
        "<p>The server is running, but this binary was built without its dashboard. Build that with Node 20, and the binary again:</p>\
         <pre>(cd web &amp;&amp; npm install --no-save &amp;&amp; npm run build)\ncargo build</pre>\
         <p>The API is described in <a href=\"/api/v1/openapi.json\">openapi.json</a>, \
         its problems in <a href=\"/docs/errors\">the list of errors</a>.</p>\
         <pre>curl -H \"Authorization: Bearer $TOKEN\" \\\n  http://HOST/api/v1/organizations/ORG/pipelines</pre>",
    )
}

/// List the problem codes.
#[utoipa::path(get, operation_id = "listErrorPages", path = "/docs/errors", tag = "pages",
    responses((status = 200, content_type = "text/html", body = String)))]
pub(super) async fn error_list() -> Html<String> {
    let mut rows = String::new();
    for code in Code::ALL {
        let (name, status, title) = (code.as_str(), code.status(), code.title());
        let _ = write!(
            rows,
            "<tr><td>{status}</td><td><a href=\"/docs/errors/{name}\">{name}</a></td><td>{title}</td></tr>"
        );
    }
    page("Errors", &format!("<table>{rows}</table>"))
}

/// Get the documentation of a problem code.
#[utoipa::path(get, operation_id = "getErrorPage", path = "/docs/errors/{code}", tag = "pages",
    responses((status = 200, content_type = "text/html", body = String)))]
pub(super) async fn error_page(Path(code): Path<String>) -> Result<Html<String>, AppError> {
    let code = Code::ALL.iter().find(|known| known.as_str() == code);
    let code = code.ok_or_else(|| AppError::not_found("page"))?;
    let body = format!(
        "<p><strong>{}</strong>, status {}</p><p>{}</p><p><a href=\"/docs/errors\">All errors</a></p>",
        code.title(),
        code.status(),
        code.explanation(),
    );
    Ok(page(code.as_str(), &body))
}

fn page(title: &str, body: &str) -> Html<String> {
    docs::framed(title, &format!("<h1>{title}</h1>{body}"))
}
