//! Endpoints for members, service accounts and agents.

use std::sync::Arc;

use axum::extract::{Path, State};
use berth_api::Data;
use berth_api::agent::{AgentLimitsPatch, WireTakeoverScope};
use berth_api::member::{MemberNew, MemberPatch, WireMember};
use berth_api::page::List;
use berth_core::access::{Role, permit};
use berth_core::agent::{self as limit, TakeoverScope};
use berth_core::id::UserId;
use berth_core::name::{DisplayName, Email};

use super::sessions::check_range;
use crate::app::{AgentLimitsChange, ApiResponse, App, IdempotentResponse, NewAgent, NewServiceAccount};
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

/// Add a service account or an agent. To add a person, create an invitation.
#[utoipa::path(post, path = "/api/v1/organizations/{orgId}/members", tag = "members", request_body = MemberNew,
    responses((status = 201, body = Data<WireMember>)))]
pub(crate) async fn add_member(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::MembersWrite>,
    posted: PostBody<MemberNew>,
) -> Result<IdempotentResponse<WireMember>, AppError> {
    let body = posted.body;
    let mut check = InputChecker::default();
    let is_agent = body.kind.as_deref() == Some("agent");
    let email = match (body.email.as_deref(), is_agent) {
        (None, true) => None,
        (given, _) => check.require("/email", Email::parse(given.unwrap_or_default())),
    };
    let role = match (body.role.as_deref(), is_agent) {
        (None, true) => Some(Role::Tester),
        (given, _) => check.require("/role", given.unwrap_or_default().parse::<Role>()),
    };
    let name = check.optional("/name", body.name.as_deref(), DisplayName::parse);
    if is_agent && body.name.as_deref().unwrap_or_default().is_empty() {
        check.require::<(), _>("/name", Err("is required for an agent"));
    }
    if !is_agent && body.kind.as_deref() != Some("service") {
        let text = "must be service or agent; invite a person with POST …/invitations";
        check.require::<(), _>("/kind", Err(text));
    }
    let owner = check.optional("/ownerId", body.owner_id.as_deref(), str::parse::<UserId>);
    let limits = body.limits.as_ref().map(|limits| parse_limits(&mut check, limits));
    if !is_agent && (body.owner_id.is_some() || limits.is_some()) {
        check.require::<(), _>("/kind", Err("must be agent to have an ownerId or limits"));
    }
    let agent = is_agent.then(|| NewAgent { owner, limits: limits.unwrap_or_default() });
    let asked = check.finish(role.map(|role| NewServiceAccount { email, name, role, agent }))?;
    app.add_service_account(&who, asked, posted.idempotency_key).await
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
    let limits = body.limits.as_ref().map(|limits| parse_limits(&mut check, limits));
    let (role, limits) = check.finish(Some((role, limits)))?;
    app.change_member(&who, user_id(&user)?, role, limits, expected).await
}

fn parse_limits(check: &mut InputChecker, sent: &AgentLimitsPatch) -> AgentLimitsChange {
    let mut range =
        |name: &str, given, least, most| check_range(check, &format!("/limits/{name}"), given, least, most);
    AgentLimitsChange {
        sessions: range("sessions", sent.sessions, limit::SESSIONS_MIN, limit::SESSIONS_MAX),
        session_seconds: range(
            "sessionSeconds",
            sent.session_seconds,
            limit::SESSION_S_MIN,
            limit::SESSION_S_MAX,
        ),
        deployments_per_hour: range(
            "deploymentsPerHour",
            sent.deployments_per_hour,
            limit::DEPLOYMENTS_PER_HOUR_MIN,
            limit::DEPLOYMENTS_PER_HOUR_MAX,
        ),
        force_claim: sent.force_claim.map(|scope| match scope {
            WireTakeoverScope::Never => TakeoverScope::Never,
            WireTakeoverScope::Agents => TakeoverScope::Agents,
            WireTakeoverScope::Anyone => TakeoverScope::Anyone,
        }),
    }
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
