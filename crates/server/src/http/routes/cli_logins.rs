//! Endpoints for logins of the CLI.

use std::sync::Arc;

use axum::extract::{FromRequest as _, Request, State};
use berth_api::Data;
use berth_api::cli_login::{
    CliLoginApproval, CliLoginCode, CliLoginDecision, CliLoginExchange, CliLoginNew, CliLoginResult,
    CliLoginStarted, PendingCliLogin,
};
use berth_core::access::permit;
use berth_engine::credential::RedactedString;

use super::invitations::base_url;
use crate::app::{ApiResponse, App, CliLoginProof, CliLoginRequest, IdempotentResponse, LoopbackRedirect};
use crate::error::AppError;
use crate::http::access_control::{self, RequireCaller, RequirePermit};
use crate::http::body::JsonBody;
use crate::http::edge::RequestOrigin;
use crate::http::input_checker::InputChecker;
use crate::limits::{TOKEN_DAYS, TOKEN_DAYS_MAX};

const MACHINE_CHARS_MAX: usize = 100;
/// Ports that a program can listen on without privileges.
const REDIRECT_PORTS: std::ops::RangeInclusive<i64> = 1024..=65_535;
/// Length of a SHA-256 in base64url without padding.
const CHALLENGE_CHARS: usize = 43;
const STATE_CHARS: std::ops::RangeInclusive<usize> = 16..=128;

/// Start a login of the CLI. A person approves it in the browser.
#[utoipa::path(post, path = "/api/v1/auth/cli-logins", tag = "sign-in", request_body = CliLoginNew,
    responses((status = 200, body = Data<CliLoginStarted>)))]
pub(crate) async fn start_cli_login(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<ApiResponse<CliLoginStarted>, AppError> {
    access_control::check_stranger(&app, &request)?;
    let dashboard = base_url(&app, request.headers());
    let RequestOrigin { request_id, client } = access_control::request_origin(request.extensions())?.clone();
    let JsonBody(body) = JsonBody::<CliLoginNew>::from_request(request, &app).await?;
    let mut check = InputChecker::default();
    let machine = check.require("/machine", parse_machine(&body.machine));
    let redirect = parse_redirect(&mut check, &body);
    let machine = check.finish(machine)?;
    let new = CliLoginRequest { machine, redirect, client, request_id };
    app.start_cli_login(new, &dashboard).await.map(ApiResponse::ok)
}

/// Fetch the token of an approved CLI login. While the login is pending, poll at the interval in the response.
#[utoipa::path(post, path = "/api/v1/auth/cli-logins/token", tag = "sign-in", request_body = CliLoginExchange,
    responses((status = 200, body = Data<CliLoginResult>)))]
pub(crate) async fn exchange_cli_login(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<ApiResponse<CliLoginResult>, AppError> {
    access_control::check_stranger(&app, &request)?;
    let RequestOrigin { request_id, .. } = access_control::request_origin(request.extensions())?.clone();
    let JsonBody(body) = JsonBody::<CliLoginExchange>::from_request(request, &app).await?;
    let proof = CliLoginProof {
        device_code: RedactedString::new(body.device_code),
        code: body.code.map(RedactedString::new),
        code_verifier: body.code_verifier.map(RedactedString::new),
    };
    app.exchange_cli_login(proof, request_id).await.map(ApiResponse::ok)
}

/// Get a CLI login that waits for your approval, by the code that the CLI shows. Only in the dashboard.
#[utoipa::path(post, path = "/api/v1/auth/cli-logins/find", tag = "sign-in", request_body = CliLoginCode,
    responses((status = 200, body = Data<PendingCliLogin>)))]
pub(crate) async fn find_cli_login(
    State(app): State<Arc<App>>,
    RequireCaller(who): RequireCaller,
    JsonBody(body): JsonBody<CliLoginCode>,
) -> Result<ApiResponse<PendingCliLogin>, AppError> {
    app.find_cli_login(&who, &body.user_code).await.map(ApiResponse::ok)
}

/// Deny a CLI login. Only in the dashboard.
#[utoipa::path(post, path = "/api/v1/auth/cli-logins/deny", tag = "sign-in", request_body = CliLoginCode,
    responses((status = 200, body = Data<CliLoginDecision>)))]
pub(crate) async fn deny_cli_login(
    State(app): State<Arc<App>>,
    RequireCaller(who): RequireCaller,
    JsonBody(body): JsonBody<CliLoginCode>,
) -> Result<ApiResponse<CliLoginDecision>, AppError> {
    app.deny_cli_login(&who, &body.user_code).await.map(ApiResponse::ok)
}

/// Approve a CLI login. The CLI gets an API token for this organization with your permissions. Only in the dashboard.
#[utoipa::path(post, path = "/api/v1/organizations/{orgId}/cli-logins", tag = "api tokens",
    request_body = CliLoginApproval, responses((status = 200, body = Data<CliLoginDecision>)))]
pub(crate) async fn approve_cli_login(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::TokensOwn>,
    JsonBody(body): JsonBody<CliLoginApproval>,
) -> Result<IdempotentResponse<CliLoginDecision>, AppError> {
    let days = body.expires_in_days.unwrap_or(TOKEN_DAYS);
    if !(1..=TOKEN_DAYS_MAX).contains(&days) {
        let range = format!("must be a whole number from 1 to {TOKEN_DAYS_MAX}");
        return Err(AppError::invalid_member("/expiresInDays", range));
    }
    app.approve_cli_login(&who, &body.user_code, days).await
}

fn parse_machine(text: &str) -> Result<String, String> {
    let text = text.trim();
    if text.is_empty() || text.chars().count() > MACHINE_CHARS_MAX || text.chars().any(char::is_control) {
        return Err(format!("must have 1 to {MACHINE_CHARS_MAX} characters without control characters"));
    }
    Ok(text.to_owned())
}

/// A login has all three members for the redirect, or none. The browser is only ever redirected to 127.0.0.1, so there
/// is no address to check.
fn parse_redirect(check: &mut InputChecker, body: &CliLoginNew) -> Option<LoopbackRedirect> {
    let is_token = |text: &str| text.bytes().all(|it| it.is_ascii_alphanumeric() || b"-_".contains(&it));
    let Some(port) = body.redirect_port else {
        for (pointer, given) in [("/codeChallenge", &body.code_challenge), ("/state", &body.state)] {
            if given.is_some() {
                check.require(pointer, Err::<(), _>("is only allowed with redirectPort"));
            }
        }
        return None;
    };
    let (first, last) = (REDIRECT_PORTS.start(), REDIRECT_PORTS.end());
    let port = check.require(
        "/redirectPort",
        Some(port)
            .filter(|port| REDIRECT_PORTS.contains(port))
            .ok_or_else(|| format!("must be a whole number from {first} to {last}")),
    );
    let code_challenge = check.require(
        "/codeChallenge",
        body.code_challenge
            .clone()
            .filter(|text| text.len() == CHALLENGE_CHARS && is_token(text))
            .ok_or("must be the SHA-256 of the verifier, as base64url without padding"),
    );
    let state = check.require(
        "/state",
        body.state.clone().filter(|text| STATE_CHARS.contains(&text.len()) && is_token(text)).ok_or_else(
            || {
                let (first, last) = (STATE_CHARS.start(), STATE_CHARS.end());
                format!("must have {first} to {last} letters, digits, hyphens or underscores")
            },
        ),
    );
    let ((port, code_challenge), state) = port.zip(code_challenge).zip(state)?;
    Some(LoopbackRedirect { port, state, code_challenge })
}
