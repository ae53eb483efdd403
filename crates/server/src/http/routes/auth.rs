//! Endpoints for login, logout, passwords and the current user.

use std::sync::Arc;

use axum::extract::FromRequest;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use berth_api::Data;
use berth_api::auth::{
    CurrentUser, LoginRequest, PasswordChange, PasswordConfirmation, PasswordReset, PasswordResetDone,
    SignedOut,
};
use berth_api::problem::Code;
use berth_core::name::Email;
use berth_engine::credential::RedactedString;
use berth_store::tables::sign_in::SIGN_IN_AGE_S_MAX;
use http::header::{HeaderMap, HeaderValue, ORIGIN, SET_COOKIE};

use crate::app::{ApiResponse, App, IdempotentResponse, LoginAttempt, SignedIn};
use crate::error::AppError;
use crate::http::access_control::{self, RequireCaller};
use crate::http::body::{JsonBody, PostBody};
use crate::http::edge::RequestOrigin;

/// Lifetime in seconds of the cookie that identifies a browser in which an account has logged in.
const KNOWN_BROWSER_S: i64 = 365 * 24 * 60 * 60;

/// Log in. Returns the current user and sets a session cookie. If the account has a second factor, the response to a
/// correct password without `code` is the problem `second_factor_code_required`: send both again. Send `csrfToken` as `X-Berth-CSRF` with every request
/// that changes something.
#[utoipa::path(post, path = "/api/v1/auth/login", tag = "sign-in", request_body = LoginRequest,
    responses((status = 200, body = Data<CurrentUser>)))]
pub(crate) async fn log_in(State(app): State<Arc<App>>, request: Request) -> Result<Response, AppError> {
    let cookie = cookie_name(&app, request.headers())?;
    access_control::check_same_origin(&app, request.headers())?;
    let RequestOrigin { request_id, client } = access_control::request_origin(request.extensions())?.clone();
    let known_browser = access_control::cookie(request.headers(), &browser_cookie(cookie)).map(str::to_owned);
    let JsonBody(LoginRequest { email, password, code }) = JsonBody::from_request(request, &app).await?;
    let (password, code) = (RedactedString::new(password), code.map(RedactedString::new));
    let email =
        Email::parse(&email).map_err(|error| AppError::invalid_member("/email", error.to_string()))?;
    let attempt = LoginAttempt { email, password, code, client, known_browser, request_id };
    let signed_in = app.log_in(attempt).await?;
    Ok(respond_signed_in(&signed_in, cookie))
}

/// Log out of this browser.
#[utoipa::path(post, path = "/api/v1/auth/logout", tag = "sign-in", responses((status = 200, body = Data<SignedOut>)))]
pub(crate) async fn log_out(
    State(app): State<Arc<App>>,
    RequireCaller(who): RequireCaller,
    _: PostBody<EmptyBody>,
) -> Result<Response, AppError> {
    let provider_logout_url = app.log_out(&who).await?;
    let mut response = ApiResponse::ok(SignedOut { signed_out: true, provider_logout_url }).into_response();
    clear_cookie(&app, &mut response);
    Ok(response)
}

/// Get the current user and their organizations.
#[utoipa::path(get, operation_id = "getMe", path = "/api/v1/me", tag = "sign-in", responses((status = 200, body = Data<CurrentUser>)))]
pub(crate) async fn me(
    State(app): State<Arc<App>>,
    RequireCaller(who): RequireCaller,
) -> Result<ApiResponse<CurrentUser>, AppError> {
    app.me(&who).await.map(ApiResponse::ok)
}

/// Change your password. Logs out your other browsers and, on request, revokes your API tokens.
#[utoipa::path(post, path = "/api/v1/me/password", tag = "sign-in", request_body = PasswordChange,
    responses((status = 200, body = Data<CurrentUser>)))]
pub(crate) async fn change_password(
    State(app): State<Arc<App>>,
    RequireCaller(who): RequireCaller,
    posted: PostBody<PasswordChange>,
) -> Result<IdempotentResponse<CurrentUser>, AppError> {
    let body = posted.body;
    let (current, new) = (RedactedString::new(body.current_password), RedactedString::new(body.new_password));
    let code = body.code.map(RedactedString::new);
    app.change_password(&who, current, code, new, body.revoke_tokens, posted.idempotency_key).await
}

/// Confirm your password, and a code if you have a second factor, in this browser. Creating tokens and changing roles or secrets requires a confirmation less
/// than an hour old.
#[utoipa::path(post, path = "/api/v1/auth/confirm", tag = "sign-in", request_body = PasswordConfirmation,
    responses((status = 200, body = Data<CurrentUser>)))]
pub(crate) async fn confirm_password(
    State(app): State<Arc<App>>,
    RequireCaller(who): RequireCaller,
    JsonBody(body): JsonBody<PasswordConfirmation>,
) -> Result<ApiResponse<CurrentUser>, AppError> {
    let (password, code) = (RedactedString::new(body.password), body.code.map(RedactedString::new));
    app.confirm_password(&who, password, code).await.map(ApiResponse::ok)
}

/// Set a new password with the token from a reset link. Logs the account out everywhere.
#[utoipa::path(post, path = "/api/v1/auth/reset-password", tag = "sign-in", request_body = PasswordReset,
    responses((status = 200, body = Data<PasswordResetDone>)))]
pub(crate) async fn reset_password(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<ApiResponse<PasswordResetDone>, AppError> {
    access_control::check_stranger(&app, &request)?;
    let RequestOrigin { request_id, .. } = access_control::request_origin(request.extensions())?.clone();
    let JsonBody(body) = JsonBody::<PasswordReset>::from_request(request, &app).await?;
    let (link, new) = (RedactedString::new(body.token), RedactedString::new(body.new_password));
    app.reset_password(&link, new, body.revoke_tokens, request_id).await.map(ApiResponse::ok)
}

/// An empty request body. Any member is rejected.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EmptyBody {}

/// Returns the name of the session cookie. Fails if the cookie would not be safe on this connection.
pub(super) fn cookie_name(app: &App, headers: &HeaderMap) -> Result<&'static str, AppError> {
    // Browsers would send a cookie for this address to every program that listens on it. Other clients store cookies
    // separately, and they do not send `Origin`.
    if headers.contains_key(ORIGIN)
        && let Some(dashboard) = access_control::dashboard_elsewhere(app, headers)
    {
        let text = format!(
            "log in at {dashboard}: a cookie for this address would be sent to every other program that listens on it"
        );
        return Err(AppError::new(Code::InvalidState, text));
    }
    app.config.cookie_name().ok_or_else(|| {
        let text = "logging in needs https, or a server on a loopback address: a cookie over plain http can be read by \
                    everyone in between. Set public_url to the https address people use.";
        AppError::new(Code::InvalidState, text)
    })
}

pub(super) fn respond_signed_in(signed_in: &SignedIn, cookie: &str) -> Response {
    let mut response = ApiResponse::ok(signed_in.me.clone()).into_response();
    set_sign_in_cookies(&mut response, signed_in, cookie);
    response
}

pub(super) fn clear_cookie(app: &App, response: &mut Response) {
    if let Some(cookie) = app.config.cookie_name() {
        set_cookie(response, cookie, "", 0);
    }
}

pub(super) fn set_sign_in_cookies(response: &mut Response, signed_in: &SignedIn, cookie: &str) {
    set_cookie(response, cookie, signed_in.secret.reveal(), SIGN_IN_AGE_S_MAX);
    set_cookie(response, &browser_cookie(cookie), &signed_in.known_browser, KNOWN_BROWSER_S);
}

/// Builds the cookie that identifies the browser. It is kept on logout, so that failed logins from other browsers do
/// not lock out this one.
fn browser_cookie(cookie: &str) -> String {
    format!("{cookie}-browser")
}

pub(super) fn set_cookie(response: &mut Response, name: &str, value: &str, age_s: i64) {
    let secure = if name.starts_with("__Host-") { "; Secure" } else { "" };
    let cookie = format!("{name}={value}; Path=/; HttpOnly; SameSite=Lax; Max-Age={age_s}{secure}");
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
}
