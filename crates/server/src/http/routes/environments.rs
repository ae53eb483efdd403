//! Endpoints for ephemeral environments, their lock history and insights.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use berth_api::Data;
use berth_api::environment::{All, Environment, HistoryEntry, Insights, Numbered};
use berth_core::access::permit;
use http::HeaderMap;

use super::events::{follow, last_event_id, wants_stream};
use crate::app::{Answer, App, EventFilter, Place};
use crate::error::AppError;
use crate::http::guard::Allowed;
use crate::http::query::{PageNumber, Params};
use crate::limits::{INSIGHT_DAYS_DEFAULT, INSIGHT_DAYS_MAX};

/// List the environments of a pipeline, each with who holds it.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}/pipelines/{pipelineId}/ephemeral-environments",
    tag = "environments", responses((status = 200, body = All<Environment>)))]
pub(crate) async fn list_environments(
    State(app): State<Arc<App>>,
    Allowed(who): Allowed<permit::EnvironmentsRead>,
    Path((_, pipeline)): Path<(String, String)>,
) -> Result<Json<All<Environment>>, AppError> {
    Ok(Json(All { data: app.list_environments(&who, pipeline).await? }))
}

/// View an environment: its configuration and its lock. With `Accept: text/event-stream`, follow what happens in it.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}/pipelines/{pipelineId}/ephemeral-environments/{envName}",
    tag = "environments",
    params(("Last-Event-ID" = Option<i64>, Header, description = "follow from after this sequence on")),
    responses((status = 200, description = "the environment, or a stream of its events", content(
        (Data<Environment> = "application/json"), (String = "text/event-stream")))))]
pub(crate) async fn view_environment(
    State(app): State<Arc<App>>,
    Allowed(who): Allowed<permit::EnvironmentsRead>,
    Path((_, pipeline, env_name)): Path<(String, String, String)>,
    headers: HeaderMap,
    params: Params,
) -> Result<Response, AppError> {
    let (place, last) = (Place { pipeline, env_name }, last_event_id(&headers, &params)?);
    if !wants_stream(&headers) {
        return Ok(app.view_environment(&who, place).await?.into_response());
    }
    let id = app.environment_id(&who, place).await?;
    let filter = EventFilter { environment: Some(id.to_string()), ..EventFilter::default() };
    follow(&app, who.also()?, filter, last, &headers).await
}

/// List who held an environment, newest first.
#[utoipa::path(get, operation_id = "getEnvironmentHistory",
    path = "/api/v1/organizations/{orgId}/pipelines/{pipelineId}/ephemeral-environments/{envName}/history",
    tag = "environments",
    params(("page" = Option<i64>, Query, minimum = 1, description = "from 1"),
           ("limit" = Option<i64>, Query, minimum = 1, maximum = 1000, description = "sessions on a page: 50 unless given, at most 1,000")),
    responses((status = 200, body = Numbered<HistoryEntry>)))]
pub(crate) async fn view_history(
    State(app): State<Arc<App>>,
    Allowed(who): Allowed<permit::EnvironmentsRead>,
    Path((_, pipeline, env_name)): Path<(String, String, String)>,
    number: PageNumber,
) -> Result<Response, AppError> {
    let place = Place { pipeline, env_name };
    let page = app.view_history(&who, place, number.page, number.limit).await?;
    Ok(number.list(page).into_response())
}

/// Get how an environment was used: waiting, holding, takeovers.
#[utoipa::path(get, operation_id = "getEnvironmentInsights",
    path = "/api/v1/organizations/{orgId}/pipelines/{pipelineId}/ephemeral-environments/{envName}/insights",
    tag = "environments",
    params(("days" = Option<i64>, Query, minimum = 1, maximum = 366, description = "how far back to look: 30 unless given, at most 366")),
    responses((status = 200, body = Data<Insights>)))]
pub(crate) async fn view_insights(
    State(app): State<Arc<App>>,
    Allowed(who): Allowed<permit::EnvironmentsRead>,
    Path((_, pipeline, env_name)): Path<(String, String, String)>,
    params: Params,
) -> Result<Answer<Insights>, AppError> {
    let days = params.whole("days", 1, INSIGHT_DAYS_MAX)?.unwrap_or(INSIGHT_DAYS_DEFAULT);
    app.view_insights(&who, Place { pipeline, env_name }, days).await
}
