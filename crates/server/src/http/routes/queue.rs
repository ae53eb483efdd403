//! Endpoints for the queue of an environment.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use berth_api::Data;
use berth_api::environment::All;
use berth_api::session::{TicketStatus, WireTicket};
use berth_core::access::permit;
use http::HeaderMap;

use super::sessions::{EnvironmentItemPath, has_news};
use crate::app::{ApiResponse, App, EnvironmentPath, IdempotentResponse};
use crate::error::AppError;
use crate::http::access_control::RequirePermit;
use crate::http::query::QueryParams;

/// List the tickets in the queue for an environment, next first.
#[utoipa::path(get, operation_id = "listQueue",
    path = "/api/v1/organizations/{orgId}/pipelines/{pipelineId}/ephemeral-environments/{envName}/queue",
    tag = "environments", responses((status = 200, body = All<WireTicket>)))]
pub(crate) async fn view_queue(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::EnvironmentsRead>,
    Path((_, pipeline, env_name)): Path<(String, String, String)>,
) -> Result<Json<All<WireTicket>>, AppError> {
    Ok(Json(All { data: app.view_queue(&who, EnvironmentPath { pipeline, env_name }).await? }))
}

/// Get a ticket. With `wait`, responds when it changes or has ended. For a claim-any, returns the granted ticket once
/// one of the group was granted.
#[utoipa::path(get,
    path = "/api/v1/organizations/{orgId}/pipelines/{pipelineId}/ephemeral-environments/{envName}/queue/{ticketId}",
    tag = "environments",
    params(("wait" = Option<i64>, Query, minimum = 0, maximum = 50, description = "Seconds to wait for a change, at most 50")),
    responses((status = 200, body = Data<WireTicket>)))]
pub(crate) async fn view_ticket(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::EnvironmentsRead>,
    Path((_, pipeline, env_name, id)): Path<EnvironmentItemPath>,
    headers: HeaderMap,
    params: QueryParams,
) -> Result<ApiResponse<WireTicket>, AppError> {
    let place = EnvironmentPath { pipeline, env_name };
    let mut waiting = app.begin_long_poll(&who, params.wait()?)?;
    loop {
        let seen = app.view_ticket(&who, place.clone(), id.clone()).await?;
        let is_over = seen.body.status != TicketStatus::Waiting;
        if !waiting.wait_for_change(has_news(&headers, &seen, is_over)).await {
            return Ok(seen);
        }
    }
}

/// Leave the queue. With a ticket of a claim-any, leaves all its queues. Leaving again has no effect.
#[utoipa::path(delete,
    path = "/api/v1/organizations/{orgId}/pipelines/{pipelineId}/ephemeral-environments/{envName}/queue/{ticketId}",
    tag = "environments", responses((status = 200, body = Data<WireTicket>)))]
pub(crate) async fn leave_queue(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::EnvironmentsClaim>,
    Path((_, pipeline, env_name, id)): Path<EnvironmentItemPath>,
) -> Result<IdempotentResponse<WireTicket>, AppError> {
    app.leave_queue(&who, EnvironmentPath { pipeline, env_name }, id).await
}
