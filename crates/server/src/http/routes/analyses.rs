//! Analyses of failed steps, and their settings.

use std::sync::Arc;

use axum::extract::{Path, State};
use berth_api::Data;
use berth_api::analysis::{Analysis, AnalysisNew, AnalysisSettings, AnalysisSettingsPut};
use berth_api::page::List;
use berth_core::access::permit;
use berth_core::id::AnalysisId;

use crate::app::{Answer, App, Outcome};
use crate::error::AppError;
use crate::http::body::{Posted, Sent};
use crate::http::guard::Allowed;
use crate::http::query::{IfMatch, Listed, Paging};

/// Have a failed step looked into. Asked for again, the answer is the analysis there is.
#[utoipa::path(post, path = "/api/v1/organizations/{orgId}/deployments/{deploymentId}/analyses", tag = "analyses",
    request_body = Option<AnalysisNew>, responses((status = 202, body = Data<Analysis>)))]
pub(crate) async fn request_analysis(
    State(app): State<Arc<App>>,
    Allowed(who): Allowed<permit::AnalysisRun>,
    Path((_, deployment)): Path<(String, String)>,
    posted: Posted<AnalysisNew>,
) -> Result<Outcome<Analysis>, AppError> {
    app.request_analysis(&who, deployment, posted.body.step_id, posted.once).await
}

/// List the analyses of a deployment, newest first.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}/deployments/{deploymentId}/analyses", tag = "analyses",
    responses((status = 200, body = List<Analysis>)))]
pub(crate) async fn list_analyses(
    State(app): State<Arc<App>>,
    Allowed(who): Allowed<permit::AnalysisRead>,
    Path((_, deployment)): Path<(String, String)>,
    paging: Paging,
) -> Result<Listed<Analysis>, AppError> {
    let page = app.list_analyses(&who, deployment, paging.start::<AnalysisId>()?, paging.limit).await?;
    Ok(paging.list(page))
}

/// View an analysis.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}/analyses/{analysisId}", tag = "analyses",
    responses((status = 200, body = Data<Analysis>)))]
pub(crate) async fn view_analysis(
    State(app): State<Arc<App>>,
    Allowed(who): Allowed<permit::AnalysisRead>,
    Path((_, id)): Path<(String, String)>,
) -> Result<Answer<Analysis>, AppError> {
    app.view_analysis(&who, id).await
}

/// View how failures are analysed.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}/analysis-settings", tag = "analyses",
    responses((status = 200, body = Data<AnalysisSettings>)))]
pub(crate) async fn view_analysis_settings(
    State(app): State<Arc<App>>,
    Allowed(who): Allowed<permit::AnalysisRead>,
) -> Result<Answer<AnalysisSettings>, AppError> {
    app.view_analysis_settings(&who).await
}

/// Choose how failures are analysed.
#[utoipa::path(put, path = "/api/v1/organizations/{orgId}/analysis-settings", tag = "analyses",
    request_body = AnalysisSettingsPut, responses((status = 200, body = Data<AnalysisSettings>)))]
pub(crate) async fn put_analysis_settings(
    State(app): State<Arc<App>>,
    Allowed(who): Allowed<permit::AnalysisSettings>,
    IfMatch(expected): IfMatch,
    Sent(body): Sent<AnalysisSettingsPut>,
) -> Result<Outcome<AnalysisSettings>, AppError> {
    app.change_analysis_settings(&who, body.permit_definition, expected).await
}
