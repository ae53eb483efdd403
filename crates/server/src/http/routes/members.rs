//! Endpoints for members and service accounts.

use std::sync::Arc;

use axum::extract::{Path, State};
use berth_api::Data;
use berth_api::member::{MemberNew, MemberPatch, WireMember};
use berth_api::page::List;
use berth_core::access::{Role, permit};
use berth_core::id::UserId;
use berth_core::name::{DisplayName, Email};

use crate::app::{ApiResponse, App, IdempotentResponse, NewServiceAccount};
use crate::error::AppError;
use crate::http::access_control::RequirePermit;
use crate::http::body::{JsonBody, PostBody};
use crate::http::input_checker::InputChecker;
use crate::http::query::{IfMatch, ListResponse, PageQuery};

/// List members.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}/members", tag = "members",
    responses((status = 200, body = List<WireMember>)))]
pub(crate) async fn list_members(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::MembersRead>,
    paging: PageQuery,
) -> Result<ListResponse<WireMember>, AppError> {
    let page = app.list_members(&who, paging.start::<UserId>()?, paging.limit).await?;
    Ok(paging.list(page))
}

/// Add a service account. To add a person, create an invitation.
#[utoipa::path(post, path = "/api/v1/organizations/{orgId}/members", tag = "members", request_body = MemberNew,
    responses((status = 201, body = Data<WireMember>)))]
pub(crate) async fn add_member(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::MembersWrite>,
    posted: PostBody<MemberNew>,
) -> Result<IdempotentResponse<WireMember>, AppError> {
    let body = posted.body;
    let mut check = InputChecker::default();
    let email = check.require("/email", Email::parse(&body.email));
    let role = check.require("/role", body.role.parse::<Role>());
    let name = check.optional("/name", body.name.as_deref(), DisplayName::parse);
    check.require(
        "/kind",
        match body.kind.as_deref() {
            Some("service") => Ok(()),
            _ => Err("must be service; invite a person with POST …/invitations"),
        },
    );
    let (email, role) = check.finish(email.zip(role))?;
    app.add_service_account(&who, NewServiceAccount { email, name, role }, posted.idempotency_key).await
}

/// Get a member.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}/members/{userId}", tag = "members",
    responses((status = 200, body = Data<WireMember>)))]
pub(crate) async fn view_member(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::MembersRead>,
    Path((_, user)): Path<(String, String)>,
) -> Result<ApiResponse<WireMember>, AppError> {
    app.view_member(&who, user_id(&user)?).await
}

/// Change the role of a member.
#[utoipa::path(patch, path = "/api/v1/organizations/{orgId}/members/{userId}", tag = "members",
    request_body = Option<MemberPatch>, responses((status = 200, body = Data<WireMember>)))]
pub(crate) async fn update_member(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::MembersWrite>,
    Path((_, user)): Path<(String, String)>,
    IfMatch(expected): IfMatch,
    JsonBody(body): JsonBody<MemberPatch>,
) -> Result<IdempotentResponse<WireMember>, AppError> {
    let mut check = InputChecker::default();
    let role = check.optional("/role", body.role.as_deref(), str::parse::<Role>);
    let role = check.finish(Some(role))?;
    app.change_member(&who, user_id(&user)?, role, expected).await
}

/// Remove a member. Their API tokens for this organization are revoked immediately.
#[utoipa::path(delete, path = "/api/v1/organizations/{orgId}/members/{userId}", tag = "members",
    responses((status = 200, body = Data<WireMember>)))]
pub(crate) async fn remove_member(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::MembersWrite>,
    Path((_, user)): Path<(String, String)>,
    IfMatch(expected): IfMatch,
) -> Result<IdempotentResponse<WireMember>, AppError> {
    app.remove_member(&who, user_id(&user)?, expected).await
}

pub(super) fn user_id(text: &str) -> Result<UserId, AppError> {
    text.parse().map_err(|_| AppError::not_found("member"))
}
