//! Endpoints for login through identity providers, and for linked accounts.

use std::sync::Arc;

use axum::Json;
use axum::extract::{FromRequest as _, Path, Request, State};
use axum::response::{IntoResponse, Response};
use berth_api::Data;
use berth_api::environment::All;
use berth_api::identity::{LinkedIdentity, LoginOptions, ProviderLoginRequest, ProviderLoginStarted};
use berth_core::id::IdentityId;
use http::StatusCode;
use http::header::{HeaderMap, HeaderValue, LOCATION};

use super::auth::{cookie_name, set_cookie, set_sign_in_cookies};
use crate::app::{ApiResponse, App, ProviderCallback, StartedProviderLogin};
use crate::error::AppError;
use crate::http::access_control::{self, RequireCaller};
use crate::http::body::JsonBody;
use crate::http::edge::RequestOrigin;
use crate::http::pages;
use crate::http::query::QueryParams;
use crate::limits::PROVIDER_LOGIN_S_MAX;

/// Get the ways to log in.
#[utoipa::path(get, operation_id = "getLoginOptions", path = "/api/v1/auth/providers", tag = "sign-in",
    responses((status = 200, body = Data<LoginOptions>)))]
pub(crate) async fn view_login_options(State(app): State<Arc<App>>) -> ApiResponse<LoginOptions> {
    ApiResponse::ok(app.login_options())
}

/// Start a login through an identity provider. Returns the URL to open in the browser, and sets a cookie that the
/// callback requires.
#[utoipa::path(post, operation_id = "startProviderLogin", path = "/api/v1/auth/providers/{provider}/login", tag = "sign-in",
    request_body = Option<ProviderLoginRequest>, responses((status = 200, body = Data<ProviderLoginStarted>)))]
pub(crate) async fn start_login(
    State(app): State<Arc<App>>,
    Path(provider): Path<String>,
    request: Request,
) -> Result<Response, AppError> {
    let cookie = cookie_name(&app, request.headers())?;
    access_control::check_same_origin(&app, request.headers())?;
    access_control::check_stranger(&app, &request)?;
    let JsonBody(body) = JsonBody::<ProviderLoginRequest>::from_request(request, &app).await?;
    let started = app.start_provider_login(&provider, body.next).await?;
    Ok(respond_started(started, cookie))
}

/// Start linking an account at an identity provider to your account.
#[utoipa::path(post, operation_id = "startProviderLink", path = "/api/v1/auth/providers/{provider}/link", tag = "sign-in",
    request_body = Option<ProviderLoginRequest>, responses((status = 200, body = Data<ProviderLoginStarted>)))]
pub(crate) async fn start_link(
    State(app): State<Arc<App>>,
    RequireCaller(who): RequireCaller,
    Path(provider): Path<String>,
    headers: HeaderMap,
    JsonBody(body): JsonBody<ProviderLoginRequest>,
) -> Result<Response, AppError> {
    let cookie = cookie_name(&app, &headers)?;
    let started = app.start_provider_link(&who, &provider, body.next).await?;
    Ok(respond_started(started, cookie))
}

/// Start the confirmation that sensitive actions require, if you logged in through an identity provider.
#[utoipa::path(post, operation_id = "startProviderConfirmation", path = "/api/v1/auth/confirm-with-provider", tag = "sign-in",
    request_body = Option<ProviderLoginRequest>, responses((status = 200, body = Data<ProviderLoginStarted>)))]
pub(crate) async fn start_confirmation(
    State(app): State<Arc<App>>,
    RequireCaller(who): RequireCaller,
    headers: HeaderMap,
    JsonBody(body): JsonBody<ProviderLoginRequest>,
) -> Result<Response, AppError> {
    let cookie = cookie_name(&app, &headers)?;
    let started = app.start_provider_confirmation(&who, body.next).await?;
    Ok(respond_started(started, cookie))
}

/// Receive the browser back from an identity provider. Redirects to the dashboard and sets the session cookie.
#[utoipa::path(get, operation_id = "finishProviderLogin", path = "/api/v1/auth/providers/{provider}/callback", tag = "sign-in",
    params(("state" = Option<String>, Query, description = "State of the login"),
        ("code" = Option<String>, Query, description = "Authorization code"),
        ("error" = Option<String>, Query, description = "Error code of the provider"),
        ("iss" = Option<String>, Query, description = "Issuer of the response")),
    responses((status = 303, description = "Logged in; continue in the dashboard")))]
pub(crate) async fn finish_login(
    State(app): State<Arc<App>>,
    params: QueryParams,
    Path(provider): Path<String>,
    request: Request,
) -> Result<Response, AppError> {
    let wants_page = is_navigation(request.headers());
    let finished = match read_callback(&app, &params, provider, &request) {
        Ok((callback, cookie)) => finish(&app, callback, cookie).await,
        Err(error) => Err(error),
    };
    match finished {
        Err(error) if wants_page => Ok(respond_page(error)),
        finished => finished,
    }
}

/// Reads the callback, and the name of the session cookie.
fn read_callback(
    app: &App,
    params: &QueryParams,
    provider: String,
    request: &Request,
) -> Result<(ProviderCallback, &'static str), AppError> {
    let param = |name| Ok::<_, AppError>(params.get(name)?.map(str::to_owned));
    let (state, code) = (param("state")?, param("code")?);
    let (error, issuer) = (param("error")?, param("iss")?);
    let headers = request.headers();
    let cookie = cookie_name(app, headers)?;
    access_control::check_stranger(app, request)?;
    let RequestOrigin { request_id, client } = access_control::request_origin(request.extensions())?.clone();
    let sent = |name: &str| access_control::cookie(headers, name).map(str::to_owned);
    let (pending, session) = (sent(&pending_cookie(cookie)), sent(cookie));
    let callback =
        ProviderCallback { provider, state, code, error, issuer, pending, session, client, request_id };
    Ok((callback, cookie))
}

async fn finish(app: &App, callback: ProviderCallback, cookie: &str) -> Result<Response, AppError> {
    let finished = app.finish_provider_login(callback).await?;
    let mut response = StatusCode::SEE_OTHER.into_response();
    if let Ok(next) = HeaderValue::try_from(finished.next) {
        response.headers_mut().insert(LOCATION, next);
    }
    if let Some(signed_in) = &finished.signed_in {
        set_sign_in_cookies(&mut response, signed_in, cookie);
    }
    set_cookie(&mut response, &pending_cookie(cookie), "", 0);
    Ok(response)
}

/// List your linked accounts at identity providers.
#[utoipa::path(get, operation_id = "listLinkedIdentities", path = "/api/v1/me/identities", tag = "sign-in",
    responses((status = 200, body = All<LinkedIdentity>)))]
pub(crate) async fn list_identities(
    State(app): State<Arc<App>>,
    RequireCaller(who): RequireCaller,
) -> Result<Json<All<LinkedIdentity>>, AppError> {
    Ok(Json(All { data: app.list_identities(&who).await? }))
}

/// Unlink an account at an identity provider. Ends the logins that came from it.
#[utoipa::path(delete, operation_id = "unlinkIdentity", path = "/api/v1/me/identities/{identityId}", tag = "sign-in",
    responses((status = 200, body = Data<LinkedIdentity>)))]
pub(crate) async fn unlink_identity(
    State(app): State<Arc<App>>,
    RequireCaller(who): RequireCaller,
    Path(id): Path<String>,
) -> Result<ApiResponse<LinkedIdentity>, AppError> {
    let id: IdentityId = id.parse().map_err(|_| AppError::not_found("linked account"))?;
    app.unlink_identity(&who, id).await.map(ApiResponse::ok)
}

fn respond_started(started: StartedProviderLogin, cookie: &str) -> Response {
    let mut response = ApiResponse::ok(ProviderLoginStarted { url: started.url }).into_response();
    set_cookie(&mut response, &pending_cookie(cookie), &started.cookie, PROVIDER_LOGIN_S_MAX);
    response
}

/// Builds the name of the cookie that binds a login at a provider to the browser.
fn pending_cookie(cookie: &str) -> String {
    format!("{cookie}-provider")
}

/// Whether a browser loads the response as a page. Browsers send this header to secure origins.
fn is_navigation(headers: &HeaderMap) -> bool {
    headers.get("sec-fetch-dest").is_some_and(|value| value == "document")
}

/// Responds to a browser with a page, because there is no script that could show a problem.
fn respond_page(error: AppError) -> Response {
    let problem = error.into_problem();
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, pages::login_failed(&problem.detail)).into_response()
}
