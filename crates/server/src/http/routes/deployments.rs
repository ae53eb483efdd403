//! Deployments.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use berth_api::Data;
use berth_api::deployment::{Deployment, DeploymentStatus};
use berth_api::pipeline::Because;
use berth_core::access::permit;
use berth_core::name::Reason;
use http::HeaderMap;

use super::events::{follow, last_event_id, wants_stream};
use super::sessions::is_news;
use crate::app::{App, EventFilter, Outcome};
use crate::error::AppError;
use crate::http::body::Posted;
use crate::http::check::Check;
use crate::http::guard::Allowed;
use crate::http::query::Params;

/// View a deployment. With `wait`, the answer comes when it changes or has ended; with `Accept: text/event-stream`,
/// follow what happens to it.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}/deployments/{deploymentId}", tag = "deployments",
    params(("wait" = Option<i64>, Query, minimum = 0, maximum = 50, description = "seconds to wait for something new, at most 50"),
           ("Last-Event-ID" = Option<i64>, Header, description = "follow from after this sequence on")),
    responses((status = 200, description = "the deployment, or a stream of its events", content(
        (Data<Deployment> = "application/json"), (String = "text/event-stream")))))]
pub(crate) async fn view_deployment(
    State(app): State<Arc<App>>,
    Allowed(who): Allowed<permit::DeploymentsRead>,
    Path((_, id)): Path<(String, String)>,
    headers: HeaderMap,
    params: Params,
) -> Result<Response, AppError> {
    let last = last_event_id(&headers, &params)?;
    if wants_stream(&headers) {
        let found = app.view_deployment(&who, id).await?.body.id;
        let filter = EventFilter { deployment: Some(found), ..EventFilter::default() };
        return follow(&app, who.also()?, filter, last, &headers).await;
    }
    let mut waiting = app.wait(&who, params.wait()?)?;
    loop {
        let seen = app.view_deployment(&who, id.clone()).await?;
        if !waiting.look_again(is_news(&headers, &seen, is_final(seen.body.status))).await {
            return Ok(seen.into_response());
        }
    }
}

/// Cancel a deployment: what has not started never will, what runs is told to stop. Again changes nothing.
#[utoipa::path(post, path = "/api/v1/organizations/{orgId}/deployments/{deploymentId}/cancel", tag = "deployments",
    request_body = Option<Because>, responses((status = 200, body = Data<Deployment>)))]
pub(crate) async fn cancel_deployment(
    State(app): State<Arc<App>>,
    Allowed(who): Allowed<permit::DeploymentsOperate>,
    Path((_, id)): Path<(String, String)>,
    posted: Posted<Because>,
) -> Result<Outcome<Deployment>, AppError> {
    let mut check = Check::default();
    let reason = check.optional("/reason", posted.body.reason.as_deref(), Reason::parse);
    app.cancel_deployment(&who, id, check.done(Some(reason))?, posted.once).await
}

pub(super) const fn is_final(status: DeploymentStatus) -> bool {
    match status {
        DeploymentStatus::Queued | DeploymentStatus::Running | DeploymentStatus::Cancelling => false,
        DeploymentStatus::Succeeded
        | DeploymentStatus::Failed
        | DeploymentStatus::Cancelled
        | DeploymentStatus::Superseded => true,
    }
}
