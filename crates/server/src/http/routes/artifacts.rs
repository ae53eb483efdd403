//! Endpoints for artifacts of deployments.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use berth_api::Data;
use berth_api::artifact::DeploymentArtifacts;
use berth_core::access::permit;
use http::header;

use crate::app::{ApiResponse, App};
use crate::error::AppError;
use crate::http::access_control::RequirePermit;
use crate::http::query::QueryParams;

const ARCHIVE: &str = "application/zstd";
/// An archive is never displayed, whatever is in it.
const ARCHIVE_POLICY: &str = "sandbox; default-src 'none'";

/// List the artifacts that the steps of a deployment have stored.
#[utoipa::path(get, operation_id = "listDeploymentArtifacts",
    path = "/api/v1/organizations/{orgId}/deployments/{deploymentId}/artifacts", tag = "deployments",
    responses((status = 200, body = Data<DeploymentArtifacts>)))]
pub(crate) async fn list_artifacts(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::DeploymentsRead>,
    Path((_, id)): Path<(String, String)>,
) -> Result<ApiResponse<DeploymentArtifacts>, AppError> {
    app.list_artifacts(&who, id).await
}

/// Download an artifact as a tar archive compressed with zstd.
#[utoipa::path(get, operation_id = "downloadDeploymentArtifact",
    path = "/api/v1/organizations/{orgId}/deployments/{deploymentId}/artifacts/{artifactName}", tag = "deployments",
    params(("digest" = Option<String>, Query, description = "Digest, if several steps have stored an artifact of this name. Defaults to the last one")),
    responses((status = 200, description = "The archive", content_type = "application/zstd")))]
pub(crate) async fn download_artifact(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::DeploymentsRead>,
    Path((_, id, name)): Path<(String, String, String)>,
    params: QueryParams,
) -> Result<Response, AppError> {
    let digest = params.text("digest")?;
    let download = app.download_artifact(who, id, &name, digest.as_deref()).await?;
    let headers = [
        (header::CONTENT_TYPE, ARCHIVE.to_owned()),
        // The name matches one that the definition gives, so it has no characters that need quoting.
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{name}.tar.zst\"")),
        (header::CONTENT_SECURITY_POLICY, ARCHIVE_POLICY.to_owned()),
        (header::ETAG, format!("\"{}\"", download.digest)),
        (header::CONTENT_LENGTH, download.bytes.to_string()),
    ];
    Ok((headers, Body::from_stream(download.content)).into_response())
}
