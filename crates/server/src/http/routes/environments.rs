//! Endpoints for environments, their lock history and insights.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use berth_api::Data;
use berth_api::environment::{All, EnvironmentInsights, HistoryEntry, Numbered, WireEnvironment};
use berth_core::access::permit;
use http::HeaderMap;

use super::events::{follow, last_event_id, wants_stream};
use crate::app::{ApiResponse, App, EnvironmentPath, EventFilter};
use crate::error::AppError;
use crate::http::access_control::RequirePermit;
use crate::http::query::{PageNumber, QueryParams};
use crate::limits::{INSIGHT_DAYS_DEFAULT, INSIGHT_DAYS_MAX};

/// List the ephemeral environments of a pipeline with their lock status.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}/pipelines/{pipelineId}/ephemeral-environments",
    tag = "environments", responses((status = 200, body = All<WireEnvironment>)))]
pub(crate) async fn list_environments(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::EnvironmentsRead>,
    Path((_, pipeline)): Path<(String, String)>,
) -> Result<Json<All<WireEnvironment>>, AppError> {
    Ok(Json(All { data: app.list_environments(&who, pipeline).await? }))
}

/// Get an environment. Returns its configuration and lock status. With `Accept: text/event-stream`, streams its events.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}/pipelines/{pipelineId}/ephemeral-environments/{envName}",
    tag = "environments",
    params(("Last-Event-ID" = Option<i64>, Header, description = "Stream events after this sequence number")),
    responses((status = 200, description = "The environment, or a stream of its events", content(
        (Data<WireEnvironment> = "application/json"), (String = "text/event-stream")))))]
pub(crate) async fn view_environment(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::EnvironmentsRead>,
    Path((_, pipeline, env_name)): Path<(String, String, String)>,
    headers: HeaderMap,
    params: QueryParams,
) -> Result<Response, AppError> {
    let (place, last) = (EnvironmentPath { pipeline, env_name }, last_event_id(&headers, &params)?);
    if !wants_stream(&headers) {
        return Ok(app.view_environment(&who, place).await?.into_response());
    }
    let id = app.environment_id(&who, place).await?;
    let filter = EventFilter { environment: Some(id.to_string()), ..EventFilter::default() };
    follow(&app, who.authorize_also()?, filter, (last, false), &headers).await
}

/// List the lock history of an environment, newest first.
#[utoipa::path(get, operation_id = "getEnvironmentHistory",
    path = "/api/v1/organizations/{orgId}/pipelines/{pipelineId}/ephemeral-environments/{envName}/history",
    tag = "environments",
    params(("page" = Option<i64>, Query, minimum = 1, description = "Page number, starting at 1"),
           ("limit" = Option<i64>, Query, minimum = 1, maximum = 1000, description = "Page size. Defaults to 50, at most 1,000")),
    responses((status = 200, body = Numbered<HistoryEntry>)))]
pub(crate) async fn view_history(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::EnvironmentsRead>,
    Path((_, pipeline, env_name)): Path<(String, String, String)>,
    number: PageNumber,
) -> Result<Response, AppError> {
    let place = EnvironmentPath { pipeline, env_name };
    let page = app.view_history(&who, place, number.page, number.limit).await?;
    Ok(number.list(page).into_response())
}

/// Get usage statistics of an environment. Shows session durations, waiting times and takeovers.
#[utoipa::path(get, operation_id = "getEnvironmentInsights",
    path = "/api/v1/organizations/{orgId}/pipelines/{pipelineId}/ephemeral-environments/{envName}/insights",
    tag = "environments",
    params(("days" = Option<i64>, Query, minimum = 1, maximum = 366, description = "Length of the period until now. Defaults to 30, at most 366")),
    responses((status = 200, body = Data<EnvironmentInsights>)))]
pub(crate) async fn view_insights(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::EnvironmentsRead>,
    Path((_, pipeline, env_name)): Path<(String, String, String)>,
    params: QueryParams,
) -> Result<ApiResponse<EnvironmentInsights>, AppError> {
    let days = params.integer("days", 1, INSIGHT_DAYS_MAX)?.unwrap_or(INSIGHT_DAYS_DEFAULT);
    app.view_insights(&who, EnvironmentPath { pipeline, env_name }, days).await
}
