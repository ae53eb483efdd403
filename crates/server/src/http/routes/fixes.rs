//! Endpoints for fix pull requests.

use std::sync::Arc;

use axum::extract::{Path, State};
use berth_api::Data;
use berth_api::fix::FixPullRequest;
use berth_core::access::permit;

use crate::app::{ApiResponse, App, IdempotentResponse};
use crate::error::AppError;
use crate::http::access_control::RequirePermit;
use crate::http::body::PostBody;
use crate::http::routes::auth::EmptyBody;

/// Get the pull request for a suggested fix. If another analysis of the same failure has one, returns that.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}/analyses/{analysisId}/pull-request", tag = "analyses",
    responses((status = 200, body = Data<FixPullRequest>)))]
pub(crate) async fn view_fix_pull_request(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::AnalysisRead>,
    Path((_, key)): Path<(String, String)>,
) -> Result<ApiResponse<FixPullRequest>, AppError> {
    app.view_fix_pull_request(&who, key).await
}

/// Create a pull request for a suggested fix. Pushes one commit to a new branch and opens a pull request if the forge
/// is supported. A person has to merge it. Returns 202 while it is being created; if there already is one, returns
/// that.
#[utoipa::path(post, path = "/api/v1/organizations/{orgId}/analyses/{analysisId}/pull-request", tag = "analyses",
    responses((status = 200, body = Data<FixPullRequest>), (status = 202, body = Data<FixPullRequest>)))]
pub(crate) async fn create_fix_pull_request(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::AnalysisRun>,
    Path((_, key)): Path<(String, String)>,
    posted: PostBody<EmptyBody>,
) -> Result<IdempotentResponse<FixPullRequest>, AppError> {
    app.create_fix_pull_request(&who, key, posted.idempotency_key).await
}
