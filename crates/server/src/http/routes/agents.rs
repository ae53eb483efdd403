//! Endpoints for the switch that stops all agents.

use std::sync::Arc;

use axum::extract::State;
use berth_api::Data;
use berth_api::agent::WireAgentsStatus;
use berth_api::pipeline::ReasonBody;
use berth_core::access::permit;

use super::auth::EmptyBody;
use super::pipelines::parse_reason;
use crate::app::{ApiResponse, App, IdempotentResponse};
use crate::error::AppError;
use crate::http::access_control::RequirePermit;
use crate::http::body::PostBody;

/// Get whether agents are stopped.
#[utoipa::path(get, operation_id = "getAgentsStatus", path = "/api/v1/organizations/{orgId}/agents", tag = "members",
    responses((status = 200, body = Data<WireAgentsStatus>)))]
pub(crate) async fn view_agents(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::MembersRead>,
) -> Result<ApiResponse<WireAgentsStatus>, AppError> {
    app.view_agents(&who).await
}

/// Stop all agents. Ends their sessions, cancels their queue tickets, and refuses their claims and deployments until
/// they are resumed. Deployments to stages that they started go on. Stopping again has no effect.
#[utoipa::path(post, path = "/api/v1/organizations/{orgId}/agents/stop", tag = "members",
    request_body = Option<ReasonBody>, responses((status = 200, body = Data<WireAgentsStatus>)))]
pub(crate) async fn stop_agents(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::MembersWrite>,
    posted: PostBody<ReasonBody>,
) -> Result<IdempotentResponse<WireAgentsStatus>, AppError> {
    app.stop_agents(&who, parse_reason(&posted.body)?, posted.idempotency_key).await
}

/// Resume agents. Their limits apply as before. Has no effect if agents are not stopped.
#[utoipa::path(post, path = "/api/v1/organizations/{orgId}/agents/resume", tag = "members",
    responses((status = 200, body = Data<WireAgentsStatus>)))]
pub(crate) async fn resume_agents(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::MembersWrite>,
    posted: PostBody<EmptyBody>,
) -> Result<IdempotentResponse<WireAgentsStatus>, AppError> {
    app.resume_agents(&who, posted.idempotency_key).await
}
