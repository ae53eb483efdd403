//! Endpoints for active logins.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};
use berth_api::Data;
use berth_api::login::{ActiveLogin, LoginsEnded, LogoutEverywhere};
use berth_api::page::List;
use berth_core::access::permit;
use berth_core::id::SignInId;

use super::auth::{EmptyBody, clear_cookie};
use super::members::user_id;
use crate::app::{ApiResponse, App, IdempotentResponse};
use crate::error::AppError;
use crate::http::access_control::{RequireCaller, RequirePermit};
use crate::http::body::{JsonBody, PostBody};
use crate::http::query::{ListResponse, PageQuery};

/// List the browsers in which you are logged in.
#[utoipa::path(get, path = "/api/v1/me/logins", tag = "sign-in", responses((status = 200, body = List<ActiveLogin>)))]
pub(crate) async fn list_logins(
    State(app): State<Arc<App>>,
    RequireCaller(who): RequireCaller,
    paging: PageQuery,
) -> Result<ListResponse<ActiveLogin>, AppError> {
    let page = app.list_logins(&who, paging.start::<SignInId>()?, paging.limit).await?;
    Ok(paging.list(page))
}

/// Log out of one browser. It has to log in again for its next request.
#[utoipa::path(delete, path = "/api/v1/me/logins/{loginId}", tag = "sign-in",
    responses((status = 200, body = Data<ActiveLogin>)))]
pub(crate) async fn end_login(
    State(app): State<Arc<App>>,
    RequireCaller(who): RequireCaller,
    Path(login): Path<String>,
) -> Result<ApiResponse<ActiveLogin>, AppError> {
    let id = login.parse().map_err(|_| AppError::not_found("login"))?;
    app.end_login(&who, id).await.map(ApiResponse::ok)
}

/// Log out of every browser, or of every other browser. On request, also revokes your API tokens.
#[utoipa::path(post, path = "/api/v1/auth/logout-everywhere", tag = "sign-in", request_body = LogoutEverywhere,
    responses((status = 200, body = Data<LoginsEnded>)))]
pub(crate) async fn log_out_everywhere(
    State(app): State<Arc<App>>,
    RequireCaller(who): RequireCaller,
    JsonBody(body): JsonBody<LogoutEverywhere>,
) -> Result<Response, AppError> {
    let ended = app.log_out_everywhere(&who, body.keep_current, body.revoke_tokens).await?;
    let mut response = ApiResponse::ok(ended).into_response();
    if !body.keep_current {
        clear_cookie(&app, &mut response);
    }
    Ok(response)
}

/// Log a member out of every browser. Their tokens stay valid.
#[utoipa::path(post, path = "/api/v1/organizations/{orgId}/members/{userId}/logout", tag = "members",
    responses((status = 200, body = Data<LoginsEnded>)))]
pub(crate) async fn log_out_member(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::MembersWrite>,
    Path((_, user)): Path<(String, String)>,
    posted: PostBody<EmptyBody>,
) -> Result<IdempotentResponse<LoginsEnded>, AppError> {
    app.log_out_member(&who, user_id(&user)?, posted.idempotency_key).await
}
