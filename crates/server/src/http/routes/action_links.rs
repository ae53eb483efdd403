//! Pages of action links. The token is in the query, because paths appear in logs.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::{Html, IntoResponse as _, Response};
use http::StatusCode;

use crate::app::App;
use crate::error::AppError;
use crate::http::query::QueryParams;
use crate::http::{access_control, pages};

/// Get the page of an action link from an email. It shows what the link does, and changes nothing.
#[utoipa::path(get, operation_id = "getActionLink", path = "/actions", tag = "pages",
    params(("token" = String, Query, description = "Token of the link")),
    responses((status = 200, content_type = "text/html", body = String)))]
pub(crate) async fn view_action_link(
    State(app): State<Arc<App>>,
    params: QueryParams,
    request: Request,
) -> Result<Response, AppError> {
    let wants_page = is_navigation(&request);
    let shown = match read_token(&app, &params, &request) {
        Ok(token) => app.view_action_link(token.clone()).await.map(|view| pages::action_form(&view, &token)),
        Err(refused) => Err(refused),
    };
    respond(wants_page, shown)
}

/// Perform the action of an action link as its recipient, once.
#[utoipa::path(post, operation_id = "useActionLink", path = "/actions", tag = "pages",
    params(("token" = String, Query, description = "Token of the link")),
    responses((status = 200, content_type = "text/html", body = String)))]
pub(crate) async fn use_action_link(
    State(app): State<Arc<App>>,
    params: QueryParams,
    request: Request,
) -> Result<Response, AppError> {
    let wants_page = is_navigation(&request);
    let request_id = access_control::request_origin(request.extensions())?.request_id.clone();
    let done = match read_token(&app, &params, &request) {
        Ok(token) => app.use_action_link(token, request_id).await.map(pages::action_done),
        Err(refused) => Err(refused),
    };
    respond(wants_page, done)
}

/// Reads the token, unless the client has sent too many requests.
fn read_token(app: &App, params: &QueryParams, request: &Request) -> Result<String, AppError> {
    access_control::check_stranger(app, request)?;
    params.text("token")?.ok_or_else(|| AppError::not_found("link"))
}

fn is_navigation(request: &Request) -> bool {
    request.headers().get("sec-fetch-dest").is_some_and(|value| value == "document")
}

/// Responds to a browser with a page, because there is no script that could show a problem.
fn respond(wants_page: bool, done: Result<Html<String>, AppError>) -> Result<Response, AppError> {
    match done {
        Err(error) if wants_page => {
            let problem = error.into_problem();
            let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            Ok((status, pages::action_failed(&problem.detail)).into_response())
        }
        done => done.map(axum::response::IntoResponse::into_response),
    }
}
