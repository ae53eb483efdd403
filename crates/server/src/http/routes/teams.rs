//! Endpoints for teams.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use berth_api::Data;
use berth_api::environment::All;
use berth_api::page::List;
use berth_api::team::{TeamMember, TeamNew, TeamPatch, WireTeam};
use berth_core::access::permit;
use berth_core::id::{TeamId, UserId};
use berth_core::name::{DisplayName, Slug};

use crate::app::{ApiResponse, App, IdempotentResponse, NewTeam};
use crate::error::AppError;
use crate::http::access_control::RequirePermit;
use crate::http::body::{JsonBody, PostBody};
use crate::http::input_checker::InputChecker;
use crate::http::query::{IfMatch, ListResponse, PageQuery};

/// List teams.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}/teams", tag = "teams",
    responses((status = 200, body = List<WireTeam>)))]
pub(crate) async fn list_teams(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::MembersRead>,
    paging: PageQuery,
) -> Result<ListResponse<WireTeam>, AppError> {
    let page = app.list_teams(&who, paging.start::<TeamId>()?, paging.limit).await?;
    Ok(paging.list(page))
}

/// Create a team.
#[utoipa::path(post, path = "/api/v1/organizations/{orgId}/teams", tag = "teams", request_body = TeamNew,
    responses((status = 201, body = Data<WireTeam>)))]
pub(crate) async fn create_team(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::MembersWrite>,
    posted: PostBody<TeamNew>,
) -> Result<IdempotentResponse<WireTeam>, AppError> {
    let body = posted.body;
    let mut check = InputChecker::default();
    let slug = check.require("/slug", Slug::parse(&body.slug));
    let name = body.name.as_deref().filter(|name| !name.is_empty()).unwrap_or(&body.slug);
    let name = check.require("/name", DisplayName::parse(name));
    let (slug, name) = check.finish(slug.zip(name))?;
    app.create_team(&who, NewTeam { slug, name }, posted.idempotency_key).await
}

/// Get a team.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}/teams/{teamId}", tag = "teams",
    responses((status = 200, body = Data<WireTeam>)))]
pub(crate) async fn view_team(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::MembersRead>,
    Path((_, team)): Path<(String, String)>,
) -> Result<ApiResponse<WireTeam>, AppError> {
    app.view_team(&who, team).await
}

/// Rename a team. Its slug does not change.
#[utoipa::path(patch, path = "/api/v1/organizations/{orgId}/teams/{teamId}", tag = "teams",
    request_body = Option<TeamPatch>, responses((status = 200, body = Data<WireTeam>)))]
pub(crate) async fn update_team(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::MembersWrite>,
    Path((_, team)): Path<(String, String)>,
    IfMatch(expected): IfMatch,
    JsonBody(body): JsonBody<TeamPatch>,
) -> Result<IdempotentResponse<WireTeam>, AppError> {
    let mut check = InputChecker::default();
    let name = check.optional("/name", body.name.as_deref(), DisplayName::parse);
    let name = check.finish(Some(name))?;
    app.rename_team(&who, team, name, expected).await
}

/// Delete a team and its grants. Its members stay in the organization.
#[utoipa::path(delete, path = "/api/v1/organizations/{orgId}/teams/{teamId}", tag = "teams",
    responses((status = 200, body = Data<WireTeam>)))]
pub(crate) async fn delete_team(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::MembersWrite>,
    Path((_, team)): Path<(String, String)>,
    IfMatch(expected): IfMatch,
) -> Result<IdempotentResponse<WireTeam>, AppError> {
    app.delete_team(&who, team, expected).await
}

/// List the members of a team.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}/teams/{teamId}/members", tag = "teams",
    responses((status = 200, body = All<TeamMember>)))]
pub(crate) async fn list_team_members(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::MembersRead>,
    Path((_, team)): Path<(String, String)>,
) -> Result<Json<All<TeamMember>>, AppError> {
    Ok(Json(All { data: app.list_team_members(&who, team).await? }))
}

/// Add a member to a team.
#[utoipa::path(put, path = "/api/v1/organizations/{orgId}/teams/{teamId}/members/{userId}", tag = "teams",
    responses((status = 200, body = Data<TeamMember>)))]
pub(crate) async fn add_team_member(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::MembersWrite>,
    Path((_, team, user)): Path<(String, String, String)>,
) -> Result<IdempotentResponse<TeamMember>, AppError> {
    app.add_team_member(&who, team, user_id(&user)?).await
}

/// Remove a member from a team.
#[utoipa::path(delete, path = "/api/v1/organizations/{orgId}/teams/{teamId}/members/{userId}", tag = "teams",
    responses((status = 200, body = Data<TeamMember>)))]
pub(crate) async fn remove_team_member(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::MembersWrite>,
    Path((_, team, user)): Path<(String, String, String)>,
) -> Result<IdempotentResponse<TeamMember>, AppError> {
    app.remove_team_member(&who, team, user_id(&user)?).await
}

fn user_id(text: &str) -> Result<UserId, AppError> {
    text.parse().map_err(|_| AppError::not_found("member"))
}
