//! Endpoints for what is deployed where, and for the DORA metrics.

use std::sync::Arc;

use axum::extract::State;
use berth_api::Data;
use berth_api::deployed::Deployed;
use berth_api::insights::Insights;
use berth_api::page::List;
use berth_core::access::permit;
use berth_core::id::PipelineId;

use super::events::time;
use crate::app::{Answer, App, DeliveryAsked};
use crate::error::AppError;
use crate::http::guard::Allowed;
use crate::http::query::{Listed, Paging, Params};

/// List what is where: pipelines, each with what its stages and environments have.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}/deployed", tag = "deployments",
    responses((status = 200, body = List<Deployed>)))]
pub(crate) async fn list_deployed(
    State(app): State<Arc<App>>,
    Allowed(who): Allowed<permit::DeploymentsRead>,
    paging: Paging,
) -> Result<Listed<Deployed>, AppError> {
    let page = app.list_deployed(&who, paging.start::<PipelineId>()?, paging.limit).await?;
    Ok(paging.list(page))
}

/// Get how often, how fast and how safely changes reach the last stage: DORA's four measures.
#[utoipa::path(get, operation_id = "getDeliveryInsights", path = "/api/v1/organizations/{orgId}/insights", tag = "deployments",
    params(("from" = Option<String>, Query, format = DateTime, description = "from this time on, RFC 3339: 30 days before `to` unless given, at most 366"),
           ("to" = Option<String>, Query, format = DateTime, description = "before this time, RFC 3339: now unless given"),
           ("pipeline" = Option<String>, Query, description = "id or slug; all pipelines unless given")),
    responses((status = 200, body = Data<Insights>)))]
pub(crate) async fn view_delivery(
    State(app): State<Arc<App>>,
    Allowed(who): Allowed<permit::DeploymentsRead>,
    params: Params,
) -> Result<Answer<Insights>, AppError> {
    let asked = DeliveryAsked {
        from: time(&params, "from")?,
        to: time(&params, "to")?,
        pipeline: params.text("pipeline")?,
    };
    app.view_delivery(&who, asked).await
}
