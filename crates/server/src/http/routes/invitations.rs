//! Endpoints for managing and accepting invitations.

use std::sync::Arc;

use axum::extract::{FromRequest, Path, Request, State};
use axum::response::Response;
use berth_api::Data;
use berth_api::auth::CurrentUser;
use berth_api::invitation::{
    InvitationCreated, InvitationNew, InvitationOffer, InvitationToken, SignUp as SignUpBody, WireInvitation,
};
use berth_api::organization::WireOrganization;
use berth_api::page::List;
use berth_core::access::{Role, permit};
use berth_core::id::InvitationId;
use berth_core::name::{DisplayName, Email};
use berth_engine::credential::RedactedString;
use http::HeaderMap;
use http::header::HOST;
use http::uri::Authority;

use super::auth::{cookie_name, respond_signed_in};
use crate::app::{ApiResponse, App, IdempotentResponse, NewInvitation, SignUpRequest};
use crate::error::AppError;
use crate::http::access_control::{self, RequireCaller, RequirePermit};
use crate::http::body::{JsonBody, PostBody};
use crate::http::edge::RequestOrigin;
use crate::http::input_checker::InputChecker;
use crate::http::query::{ListResponse, PageQuery};

/// List open invitations.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}/invitations", tag = "members",
    responses((status = 200, body = List<WireInvitation>)))]
pub(crate) async fn list_invitations(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::MembersWrite>,
    paging: PageQuery,
) -> Result<ListResponse<WireInvitation>, AppError> {
    let page = app.list_invitations(&who, paging.start::<InvitationId>()?, paging.limit).await?;
    Ok(paging.list(page))
}

/// Invite a person. The link works once, expires after seven days, and is returned only here. An earlier link for the
/// same address stops working.
#[utoipa::path(post, path = "/api/v1/organizations/{orgId}/invitations", tag = "members",
    request_body = InvitationNew, responses((status = 201, body = Data<InvitationCreated>)))]
pub(crate) async fn create_invitation(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::MembersWrite>,
    headers: HeaderMap,
    posted: PostBody<InvitationNew>,
) -> Result<IdempotentResponse<InvitationCreated>, AppError> {
    let body = posted.body;
    let mut check = InputChecker::default();
    let email = check.require("/email", Email::parse(&body.email));
    let role = check.require("/role", body.role.parse::<Role>());
    let name = check.optional("/name", body.name.as_deref(), DisplayName::parse);
    let (email, role) = check.finish(email.zip(role))?;
    let new = NewInvitation { email, name, role, base_url: base_url(&app, &headers) };
    app.invite(&who, new, posted.idempotency_key).await
}

/// Get an open invitation, without its link.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}/invitations/{invitationId}", tag = "members",
    responses((status = 200, body = Data<WireInvitation>)))]
pub(crate) async fn view_invitation(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::MembersWrite>,
    Path((_, id)): Path<(String, String)>,
) -> Result<ApiResponse<WireInvitation>, AppError> {
    app.view_invitation(&who, invitation_id(&id)?).await
}

/// Revoke an invitation. Its link stops working immediately.
#[utoipa::path(delete, path = "/api/v1/organizations/{orgId}/invitations/{invitationId}", tag = "members",
    responses((status = 200, body = Data<WireInvitation>)))]
pub(crate) async fn revoke_invitation(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::MembersWrite>,
    Path((_, id)): Path<(String, String)>,
) -> Result<IdempotentResponse<WireInvitation>, AppError> {
    app.revoke_invitation(&who, invitation_id(&id)?).await
}

/// Get the details of an invitation by the token of its link.
#[utoipa::path(post, operation_id = "getInvitationOffer", path = "/api/v1/auth/invitation", tag = "sign-in", request_body = InvitationToken,
    responses((status = 200, body = Data<InvitationOffer>)))]
pub(crate) async fn view_offer(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<ApiResponse<InvitationOffer>, AppError> {
    access_control::check_stranger(&app, &request)?;
    let JsonBody(InvitationToken { token }) = JsonBody::from_request(request, &app).await?;
    app.view_offer(&RedactedString::new(token)).await.map(ApiResponse::ok)
}

/// Accept an invitation and create an account. Returns the current user and sets a session cookie, like logging in.
#[utoipa::path(post, path = "/api/v1/auth/sign-up", tag = "sign-in", request_body = SignUpBody,
    responses((status = 200, body = Data<CurrentUser>)))]
pub(crate) async fn sign_up(State(app): State<Arc<App>>, request: Request) -> Result<Response, AppError> {
    let cookie = cookie_name(&app, request.headers())?;
    access_control::check_stranger(&app, &request)?;
    access_control::check_same_origin(&app, request.headers())?;
    let RequestOrigin { request_id, client } = access_control::request_origin(request.extensions())?.clone();
    let JsonBody(body) = JsonBody::<SignUpBody>::from_request(request, &app).await?;
    let mut check = InputChecker::default();
    let name = check.optional("/name", body.name.as_deref(), DisplayName::parse);
    let name = check.finish(Some(name))?;
    let (link, password) = (RedactedString::new(body.token), RedactedString::new(body.password));
    let signed_in = app.sign_up(SignUpRequest { link, name, password, client, request_id }).await?;
    Ok(respond_signed_in(&signed_in, cookie))
}

/// Accept an invitation with the account you are logged in to. Its e-mail address must be the invited one.
#[utoipa::path(post, path = "/api/v1/me/organizations", tag = "sign-in", request_body = InvitationToken,
    responses((status = 201, body = Data<WireOrganization>)))]
pub(crate) async fn join_organization(
    State(app): State<Arc<App>>,
    RequireCaller(who): RequireCaller,
    JsonBody(body): JsonBody<InvitationToken>,
) -> Result<ApiResponse<WireOrganization>, AppError> {
    app.join_organization(&who, &RedactedString::new(body.token)).await
}

/// Returns the base URL of the dashboard: the configured one, or else the host that this request was sent to.
pub(super) fn base_url(app: &App, headers: &HeaderMap) -> String {
    if let Some(dashboard) = access_control::dashboard_elsewhere(app, headers) {
        return dashboard;
    }
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()?.parse::<Authority>().ok());
    match host {
        Some(host) if app.config.public_url.is_none() => {
            let scheme = if app.config.has_tls { "https" } else { "http" };
            format!("{scheme}://{host}")
        }
        _ => app.config.base_url(),
    }
}

fn invitation_id(text: &str) -> Result<InvitationId, AppError> {
    text.parse().map_err(|_| AppError::not_found("invitation"))
}
