//! Endpoint for deliveries of forges.

use std::sync::Arc;

use axum::extract::{Path, Request, State};
use berth_api::Data;
use berth_api::connection::HookReceipt;
use http::header;

use crate::app::{ApiResponse, App};
use crate::error::AppError;
use crate::http::access_control::check_stranger;
use crate::http::body::read_raw;
use crate::limits::{HOOK_BODY_BYTES_MAX, HOOK_SMALL_BODY_BYTES_MAX};

/// Receive a delivery of a forge. It is authenticated by the forge's signature: `X-Hub-Signature-256` (GitHub),
/// `X-Gitlab-Token` (GitLab), `X-Gitea-Signature` or `X-Forgejo-Signature` (Gitea and Forgejo), `X-Hub-Signature`
/// (Bitbucket).
#[utoipa::path(post, path = "/hooks/{forge}/{hookId}", tag = "repositories",
    responses((status = 200, body = Data<HookReceipt>)))]
pub(crate) async fn receive_hook(
    State(app): State<Arc<App>>,
    Path((forge, hook)): Path<(String, String)>,
    request: Request,
) -> Result<ApiResponse<HookReceipt>, AppError> {
    let target = match app.find_hook(&forge, &hook).await {
        Err(refused @ AppError::Problem(_)) => {
            check_stranger(&app, &request)?;
            return Err(refused);
        }
        found => found?,
    };
    let length = request.headers().get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    let length = length.and_then(|text| text.parse::<usize>().ok());
    // A body without a length may be large.
    let _pass = match length {
        Some(length) if length <= HOOK_SMALL_BODY_BYTES_MAX => None,
        _ => Some(app.large_hooks.enter(target.org).await?),
    };
    let (parts, body) = request.into_parts();
    let body = read_raw(body, HOOK_BODY_BYTES_MAX).await?;
    let refused = match app.receive_delivery(target, parts.headers.clone(), body).await {
        Err(refused @ AppError::Problem(_)) => refused,
        done => return done,
    };
    check_stranger(&app, &Request::from_parts(parts, axum::body::Body::empty()))?;
    Err(refused)
}
