//! Endpoints for the Slack app of an organization, and for the requests that Slack sends.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request, State};
use berth_api::Data;
use berth_api::chat::{SlackConnectionPut, SlackReply, SlackSettings};
use berth_core::access::permit;
use berth_engine::credential::RedactedString;

use crate::app::{ApiResponse, App, IdempotentResponse, SlackAnswer, SlackCredentials};
use crate::error::AppError;
use crate::http::access_control::{RequirePermit, check_stranger, request_origin};
use crate::http::body::{JsonBody, read_raw};
use crate::http::input_checker::InputChecker;
use crate::limits::{SLACK_BODY_BYTES_MAX, SLACK_BOT_TOKEN_BYTES_MAX, SLACK_SIGNING_SECRET_BYTES_MAX};

/// How the bot tokens of Slack begin.
const BOT_TOKEN_PREFIX: &str = "xoxb-";

/// Get the Slack connection of the organization, and the manifest of the Slack app.
#[utoipa::path(get, operation_id = "getSlack", path = "/api/v1/organizations/{orgId}/slack", tag = "notifications",
    responses((status = 200, body = Data<SlackSettings>)))]
pub(crate) async fn view_slack(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::WebhooksRead>,
) -> Result<ApiResponse<SlackSettings>, AppError> {
    app.view_slack(&who).await
}

/// Connect the organization to a Slack workspace, in place of an earlier one. The secrets of the Slack app are stored
/// encrypted and never returned. Another app, or another signing secret, unlinks the accounts of the workspace.
#[utoipa::path(put, path = "/api/v1/organizations/{orgId}/slack", tag = "notifications",
    request_body = SlackConnectionPut, responses((status = 200, body = Data<SlackSettings>)))]
pub(crate) async fn connect_slack(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::WebhooksWrite>,
    JsonBody(body): JsonBody<SlackConnectionPut>,
) -> Result<IdempotentResponse<SlackSettings>, AppError> {
    let mut check = InputChecker::default();
    let signing_secret = parse_secret(body.signing_secret, SLACK_SIGNING_SECRET_BYTES_MAX);
    let signing_secret = check.require("/signingSecret", signing_secret);
    let bot_token = parse_secret(body.bot_token, SLACK_BOT_TOKEN_BYTES_MAX);
    let bot_token = bot_token.and_then(|token| match token.reveal().starts_with(BOT_TOKEN_PREFIX) {
        true => Ok(token),
        false => Err(format!("must be a bot token, which begins with {BOT_TOKEN_PREFIX}")),
    });
    let bot_token = check.require("/botToken", bot_token);
    let (signing_secret, bot_token) = check.finish(signing_secret.zip(bot_token))?;
    let api_url = body.api_url;
    app.connect_slack(&who, SlackCredentials { signing_secret, bot_token, api_url }).await
}

/// Disconnect the organization from Slack, delete the secrets and unlink the accounts of the workspace.
#[utoipa::path(delete, path = "/api/v1/organizations/{orgId}/slack", tag = "notifications",
    responses((status = 200, body = Data<SlackSettings>)))]
pub(crate) async fn disconnect_slack(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::WebhooksWrite>,
) -> Result<IdempotentResponse<SlackSettings>, AppError> {
    app.disconnect_slack(&who).await
}

/// Receive a button press or a slash command of Slack. It is authenticated by the signature in `X-Slack-Signature` over
/// the time in `X-Slack-Request-Timestamp` and the body, and acts once.
#[utoipa::path(post, path = "/hooks/slack/{orgId}", tag = "notifications",
    responses((status = 200, body = SlackReply)))]
pub(crate) async fn receive_slack_request(
    State(app): State<Arc<App>>,
    Path(org): Path<String>,
    request: Request,
) -> Result<Json<SlackReply>, AppError> {
    let request_id = request_origin(request.extensions())?.request_id.clone();
    let target = match app.find_slack_target(&org).await {
        Err(refused @ AppError::Problem(_)) => {
            check_stranger(&app, &request)?;
            return Err(refused);
        }
        found => found?,
    };
    let (parts, body) = request.into_parts();
    let body = read_raw(body, SLACK_BODY_BYTES_MAX).await?;
    match app.receive_slack_request(target, &parts.headers, &body, request_id).await {
        Ok(SlackAnswer::Reply(text)) => {
            Ok(Json(SlackReply { response_type: Some("ephemeral".to_owned()), text: Some(text) }))
        }
        Ok(SlackAnswer::Accepted | SlackAnswer::Ignored) => Ok(Json(SlackReply::default())),
        Err(refused @ AppError::Problem(_)) => {
            check_stranger(&app, &Request::from_parts(parts, axum::body::Body::empty()))?;
            Err(refused)
        }
        Err(fault) => Err(fault),
    }
}

/// Accepts printable ASCII without spaces, because the value is sent in a header.
fn parse_secret(text: String, bytes_max: usize) -> Result<RedactedString, String> {
    let is_fit = (1..=bytes_max).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
    if is_fit {
        Ok(RedactedString::new(text))
    } else {
        Err(format!("must be 1 to {bytes_max} printable ASCII characters without spaces"))
    }
}
