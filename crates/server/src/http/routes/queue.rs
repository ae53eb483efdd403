//! Endpoints for the queue of an environment.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use berth_api::Data;
use berth_api::environment::All;
use berth_api::session::{Ticket, TicketStatus};
use berth_core::access::permit;
use http::HeaderMap;

use super::sessions::{In, is_news};
use crate::app::{Answer, App, Outcome, Place};
use crate::error::AppError;
use crate::http::guard::Allowed;
use crate::http::query::Params;

/// List the tickets in the queue for an environment, next first.
#[utoipa::path(get, operation_id = "listQueue",
    path = "/api/v1/organizations/{orgId}/pipelines/{pipelineId}/ephemeral-environments/{envName}/queue",
    tag = "environments", responses((status = 200, body = All<Ticket>)))]
pub(crate) async fn view_queue(
    State(app): State<Arc<App>>,
    Allowed(who): Allowed<permit::EnvironmentsRead>,
    Path((_, pipeline, env_name)): Path<(String, String, String)>,
) -> Result<Json<All<Ticket>>, AppError> {
    Ok(Json(All { data: app.view_queue(&who, Place { pipeline, env_name }).await? }))
}

/// Get a ticket. With `wait`, responds when it changes or has ended. For a claim-any, returns the granted ticket once
/// one of the group was granted.
#[utoipa::path(get,
    path = "/api/v1/organizations/{orgId}/pipelines/{pipelineId}/ephemeral-environments/{envName}/queue/{ticketId}",
    tag = "environments",
    params(("wait" = Option<i64>, Query, minimum = 0, maximum = 50, description = "Seconds to wait for a change, at most 50")),
    responses((status = 200, body = Data<Ticket>)))]
pub(crate) async fn view_ticket(
    State(app): State<Arc<App>>,
    Allowed(who): Allowed<permit::EnvironmentsRead>,
    Path((_, pipeline, env_name, id)): Path<In>,
    headers: HeaderMap,
    params: Params,
) -> Result<Answer<Ticket>, AppError> {
    let place = Place { pipeline, env_name };
    let mut waiting = app.wait(&who, params.wait()?)?;
    loop {
        let seen = app.view_ticket(&who, place.clone(), id.clone()).await?;
        let is_over = seen.body.status != TicketStatus::Waiting;
        if !waiting.look_again(is_news(&headers, &seen, is_over)).await {
            return Ok(seen);
        }
    }
}

/// Leave the queue. With a ticket of a claim-any, leaves all its queues. Leaving again has no effect.
#[utoipa::path(delete,
    path = "/api/v1/organizations/{orgId}/pipelines/{pipelineId}/ephemeral-environments/{envName}/queue/{ticketId}",
    tag = "environments", responses((status = 200, body = Data<Ticket>)))]
pub(crate) async fn leave_queue(
    State(app): State<Arc<App>>,
    Allowed(who): Allowed<permit::EnvironmentsClaim>,
    Path((_, pipeline, env_name, id)): Path<In>,
) -> Result<Outcome<Ticket>, AppError> {
    app.leave_queue(&who, Place { pipeline, env_name }, id).await
}
