//! Endpoints for scoped grants and for the access of a member.

use std::sync::Arc;

use axum::extract::{Path, State};
use berth_api::Data;
use berth_api::grant::{GrantNew, MemberAccess, WireGrant};
use berth_api::page::List;
use berth_core::access::{AccessScope, AccessTarget, Role, permit};
use berth_core::id::{GrantId, UserId};

use crate::app::{ApiResponse, App, IdempotentResponse, NewGrant};
use crate::error::AppError;
use crate::http::access_control::RequirePermit;
use crate::http::body::PostBody;
use crate::http::input_checker::InputChecker;
use crate::http::query::{ListResponse, PageQuery, QueryParams};

/// List grants.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}/grants", tag = "grants",
    params(("subject" = Option<String>, Query, description = "Only grants of this member or team: `user:` and an id or e-mail address, or `team:` and an id or slug.", example = "team:qa")),
    responses((status = 200, body = List<WireGrant>)))]
pub(crate) async fn list_grants(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::MembersRead>,
    query: QueryParams,
    paging: PageQuery,
) -> Result<ListResponse<WireGrant>, AppError> {
    let subject = query.text("subject")?;
    let page = app.list_grants(&who, subject, paging.start::<GrantId>()?, paging.limit).await?;
    Ok(paging.list(page))
}

/// Give a member or a team a role on a part of the organization.
#[utoipa::path(post, path = "/api/v1/organizations/{orgId}/grants", tag = "grants", request_body = GrantNew,
    responses((status = 201, body = Data<WireGrant>)))]
pub(crate) async fn create_grant(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::MembersWrite>,
    posted: PostBody<GrantNew>,
) -> Result<IdempotentResponse<WireGrant>, AppError> {
    let body = posted.body;
    let mut check = InputChecker::default();
    let role = check.require("/role", body.role.parse::<Role>());
    let scope = check.require("/scope", body.scope.parse::<AccessScope>());
    let (role, scope) = check.finish(role.zip(scope))?;
    app.create_grant(&who, NewGrant { subject: body.subject, role, scope }, posted.idempotency_key).await
}

/// Get a grant.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}/grants/{grantId}", tag = "grants",
    responses((status = 200, body = Data<WireGrant>)))]
pub(crate) async fn view_grant(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::MembersRead>,
    Path((_, grant)): Path<(String, String)>,
) -> Result<ApiResponse<WireGrant>, AppError> {
    app.view_grant(&who, grant_id(&grant)?).await
}

/// Delete a grant. It takes effect immediately.
#[utoipa::path(delete, path = "/api/v1/organizations/{orgId}/grants/{grantId}", tag = "grants",
    responses((status = 200, body = Data<WireGrant>)))]
pub(crate) async fn delete_grant(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::MembersWrite>,
    Path((_, grant)): Path<(String, String)>,
) -> Result<IdempotentResponse<WireGrant>, AppError> {
    app.delete_grant(&who, grant_id(&grant)?).await
}

/// Explain what a member may do, and which role or grant allows it.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}/members/{userId}/access", tag = "grants",
    params(("resource" = Option<String>, Query, description = "The resource: `org`, `pipeline:NAME`, `environment:PIPELINE/NAME` or `stage:PIPELINE@NAME`. Defaults to `org`.", example = "environment:shop/qa-1")),
    responses((status = 200, body = Data<MemberAccess>)))]
pub(crate) async fn view_member_access(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::MembersRead>,
    Path((_, user)): Path<(String, String)>,
    query: QueryParams,
) -> Result<ApiResponse<MemberAccess>, AppError> {
    let scope = query.parse::<AccessScope>("resource")?.unwrap_or(AccessScope::Organization);
    let target = AccessTarget::try_from(scope)
        .map_err(|_| AppError::invalid_parameter("resource", "must name one resource, without *"))?;
    let user: UserId = user.parse().map_err(|_| AppError::not_found("member"))?;
    app.explain_access(&who, user, target).await
}

fn grant_id(text: &str) -> Result<GrantId, AppError> {
    text.parse().map_err(|_| AppError::not_found("grant"))
}
