//! Endpoints for the deployed commits of all pipelines, and for the DORA metrics.

use std::sync::Arc;

use axum::extract::State;
use berth_api::Data;
use berth_api::deployed::DeployedPipeline;
use berth_api::insights::DeliveryInsights;
use berth_api::page::List;
use berth_core::access::permit;
use berth_core::id::PipelineId;

use super::events::parse_time;
use crate::app::{ApiResponse, App, InsightsRequest};
use crate::error::AppError;
use crate::http::access_control::RequirePermit;
use crate::http::query::{ListResponse, PageQuery, QueryParams};

/// List what is currently deployed. Returns each pipeline with what its stages and environments run.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}/deployed", tag = "deployments",
    responses((status = 200, body = List<DeployedPipeline>)))]
pub(crate) async fn list_deployed(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::DeploymentsRead>,
    paging: PageQuery,
) -> Result<ListResponse<DeployedPipeline>, AppError> {
    let page = app.list_deployed(&who, paging.start::<PipelineId>()?, paging.limit).await?;
    Ok(paging.list(page))
}

/// Get DORA metrics. Shows how often, how fast and how safely changes reach the last stage.
#[utoipa::path(get, operation_id = "getDeliveryInsights", path = "/api/v1/organizations/{orgId}/insights", tag = "deployments",
    params(("from" = Option<String>, Query, format = DateTime, description = "Start of the period. Defaults to 30 days before `to`, at most 366 days before it"),
           ("to" = Option<String>, Query, format = DateTime, description = "End of the period. Defaults to now"),
           ("pipeline" = Option<String>, Query, description = "Id or slug of the pipeline. Defaults to all pipelines")),
    responses((status = 200, body = Data<DeliveryInsights>)))]
pub(crate) async fn view_delivery(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::DeploymentsRead>,
    params: QueryParams,
) -> Result<ApiResponse<DeliveryInsights>, AppError> {
    let asked = InsightsRequest {
        from: parse_time(&params, "from")?,
        to: parse_time(&params, "to")?,
        pipeline: params.text("pipeline")?,
    };
    app.view_delivery(&who, asked).await
}
