//! Endpoints of the runner protocol. The endpoints for managing runners are in `runners`.

use std::fs::File;
use std::io::Write as _;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{Extension, State};
use axum::response::{IntoResponse, Response};
use berth_api::Data;
use berth_api::problem::Code;
use berth_api::remote::{
    AcquireRequest, AcquiredWork, ArtifactReceipt, GoodbyeReceipt, HeartbeatRequest, HeartbeatResult,
    LogReceipt, PinImageRequest, PinnedImage, RegisteredRunner, RegistrationRequest, RunnerGoodbye,
    RunnerHello, RunnerWelcome,
};
use berth_api::runner::{ReportReceipt, StepReport};
use berth_engine::artifacts::ArtifactStore;
use http::header;

use crate::app::{ApiResponse, App};
use crate::error::AppError;
use crate::http::access_control::RunnerRequest;
use crate::http::body::{RunnerBody, next_frame, read_raw};
use crate::http::query::QueryParams;
use crate::limits::LOG_CHUNK_BYTES_MAX;
use crate::limits::{ARTIFACT_UPLOAD_BYTES_MAX, OFFSET_MAX};
use berth_engine::RunnerCaller;

/// Paths of uploads and downloads, which have a longer timeout.
pub(crate) const TRANSFERS: &[&str] =
    &["/api/v1/runner/source", "/api/v1/runner/artifact", "/api/v1/runner/registry"];
const PIECE_BYTES: usize = 64 * 1024;
const ARCHIVE: &str = "application/zstd";

/// Register a runner. Exchanges its registration token for a credential.
#[utoipa::path(post, path = "/api/v1/runner/register", tag = "runner protocol",
    request_body = RegistrationRequest, responses((status = 200, body = Data<RegisteredRunner>)))]
pub(crate) async fn register_runner(
    State(app): State<Arc<App>>,
    Extension(who): Extension<RunnerCaller>,
    RunnerBody(said): RunnerBody<RegistrationRequest>,
) -> Result<ApiResponse<RegisteredRunner>, AppError> {
    app.register_runner(who, said).await
}

/// Start a runner process. First request of every process; ends the leases of the previous one.
#[utoipa::path(post, path = "/api/v1/runner/hello", tag = "runner protocol",
    request_body = RunnerHello, responses((status = 200, body = Data<RunnerWelcome>)))]
pub(crate) async fn runner_hello(
    State(app): State<Arc<App>>,
    RunnerRequest(far): RunnerRequest,
    RunnerBody(said): RunnerBody<RunnerHello>,
) -> Result<ApiResponse<RunnerWelcome>, AppError> {
    app.runner_hello(&far, said).await.map(ApiResponse::ok)
}

/// Acquire work, waiting until there is some. Repeating the same nonces returns the same work.
#[utoipa::path(post, path = "/api/v1/runner/acquire", tag = "runner protocol",
    request_body = AcquireRequest, responses((status = 200, body = Data<AcquiredWork>)))]
pub(crate) async fn runner_acquire(
    RunnerRequest(far): RunnerRequest,
    RunnerBody(asked): RunnerBody<AcquireRequest>,
) -> Result<ApiResponse<AcquiredWork>, AppError> {
    Ok(ApiResponse::ok(AcquiredWork { assignments: far.acquire(asked).await? }))
}

/// Send a heartbeat. Responds immediately if a step has to stop.
#[utoipa::path(post, path = "/api/v1/runner/heartbeat", tag = "runner protocol",
    request_body = HeartbeatRequest, responses((status = 200, body = Data<HeartbeatResult>)))]
pub(crate) async fn runner_heartbeat(
    RunnerRequest(far): RunnerRequest,
    RunnerBody(sent): RunnerBody<HeartbeatRequest>,
) -> Result<ApiResponse<HeartbeatResult>, AppError> {
    Ok(ApiResponse::ok(HeartbeatResult { told: far.heartbeat(sent).await? }))
}

/// Append to a log. The body is written at `offset`; bytes that are already stored are not written again.
#[utoipa::path(post, path = "/api/v1/runner/log", tag = "runner protocol",
    params(("attempt" = String, Query, description = "Nonce of the attempt"),
        ("offset" = i64, Query, minimum = 0, description = "Offset in the log of the first byte of the body")),
    responses((status = 200, body = Data<LogReceipt>)))]
pub(crate) async fn runner_log(
    RunnerRequest(far): RunnerRequest,
    params: QueryParams,
    body: Body,
) -> Result<ApiResponse<LogReceipt>, AppError> {
    let nonce = require_param(&params, "attempt")?;
    let offset = params.integer("offset", 0, OFFSET_MAX)?;
    let offset = offset.ok_or_else(|| AppError::invalid_parameter("offset", "is missing"))?;
    let bytes = read_raw(body, LOG_CHUNK_BYTES_MAX).await?;
    Ok(ApiResponse::ok(far.append_log(nonce, offset.unsigned_abs(), bytes).await?))
}

/// Report how an attempt ended. The response may contain the next step of the same deployment.
#[utoipa::path(post, path = "/api/v1/runner/report", tag = "runner protocol",
    request_body = StepReport, responses((status = 200, body = Data<ReportReceipt>)))]
pub(crate) async fn runner_report(
    RunnerRequest(far): RunnerRequest,
    RunnerBody(report): RunnerBody<StepReport>,
) -> Result<ApiResponse<ReportReceipt>, AppError> {
    Ok(ApiResponse::ok(far.report(report).await?))
}

/// Pin an image of an attempt. Every attempt of the deployment uses the digest that was pinned first.
#[utoipa::path(post, path = "/api/v1/runner/image", tag = "runner protocol",
    request_body = PinImageRequest, responses((status = 200, body = Data<PinnedImage>)))]
pub(crate) async fn runner_pin_image(
    RunnerRequest(far): RunnerRequest,
    RunnerBody(said): RunnerBody<PinImageRequest>,
) -> Result<ApiResponse<PinnedImage>, AppError> {
    let digest = far.pin_image(&said.attempt, said.image, said.digest).await?;
    Ok(ApiResponse::ok(PinnedImage { digest }))
}

/// Download the pinned commit of an attempt as a tar archive compressed with zstd.
#[utoipa::path(get, path = "/api/v1/runner/source", tag = "runner protocol",
    params(("attempt" = String, Query, description = "Nonce of the attempt")),
    responses((status = 200, description = "The archive", content_type = "application/zstd")))]
pub(crate) async fn runner_source(
    RunnerRequest(far): RunnerRequest,
    params: QueryParams,
) -> Result<Response, AppError> {
    file_response(far.source(&require_param(&params, "attempt")?).await?)
}

/// Download an artifact of an earlier step as a tar archive compressed with zstd.
#[utoipa::path(get, path = "/api/v1/runner/artifact", tag = "runner protocol",
    params(("attempt" = String, Query, description = "Nonce of the attempt"),
        ("name" = String, Query, description = "Name of the artifact")),
    responses((status = 200, description = "The archive", content_type = "application/zstd")))]
pub(crate) async fn runner_artifact(
    RunnerRequest(far): RunnerRequest,
    params: QueryParams,
) -> Result<Response, AppError> {
    let name = require_param(&params, "name")?;
    file_response(far.artifact(&require_param(&params, "attempt")?, name).await?)
}

/// Upload an artifact. The body is a tar archive compressed with zstd; paths are relative to the workspace.
#[utoipa::path(post, path = "/api/v1/runner/artifact", tag = "runner protocol",
    params(("attempt" = String, Query, description = "Nonce of the attempt"),
        ("name" = String, Query, description = "Name of the artifact")),
    responses((status = 200, body = Data<ArtifactReceipt>)))]
pub(crate) async fn runner_keep_artifact(
    RunnerRequest(far): RunnerRequest,
    params: QueryParams,
    body: Body,
) -> Result<ApiResponse<ArtifactReceipt>, AppError> {
    let (nonce, name) = (require_param(&params, "attempt")?, require_param(&params, "name")?);
    far.check_attempt(&nonce).await?;
    let packed = save_body(&far.services.artifacts, body).await?;
    Ok(ApiResponse::ok(ArtifactReceipt { digest: far.keep_artifact(&nonce, name, packed).await? }))
}

/// Download a built step registry that the deployment uses, as a tar archive compressed with zstd.
#[utoipa::path(get, path = "/api/v1/runner/registry", tag = "runner protocol",
    params(("attempt" = String, Query, description = "Nonce of the attempt"),
        ("digest" = String, Query, description = "Digest of the registry")),
    responses((status = 200, description = "The archive", content_type = "application/zstd")))]
pub(crate) async fn runner_registry(
    RunnerRequest(far): RunnerRequest,
    params: QueryParams,
) -> Result<Response, AppError> {
    let digest = require_param(&params, "digest")?;
    file_response(far.registry(&require_param(&params, "attempt")?, digest).await?)
}

/// End a runner process. Sent on a clean shutdown, when none of its steps run any more.
#[utoipa::path(post, path = "/api/v1/runner/goodbye", tag = "runner protocol",
    request_body = RunnerGoodbye, responses((status = 200, body = Data<GoodbyeReceipt>)))]
pub(crate) async fn runner_goodbye(
    RunnerRequest(far): RunnerRequest,
    RunnerBody(said): RunnerBody<RunnerGoodbye>,
) -> Result<ApiResponse<GoodbyeReceipt>, AppError> {
    far.goodbye(said.boot).await?;
    Ok(ApiResponse::ok(GoodbyeReceipt {}))
}

fn require_param(params: &QueryParams, name: &str) -> Result<String, AppError> {
    params.text(name)?.ok_or_else(|| AppError::invalid_parameter(name, "is missing"))
}

/// Streams a file in chunks.
fn file_response(mut file: File) -> Result<Response, AppError> {
    use std::io::{Read as _, Seek as _};
    let failed = |error: std::io::Error| AppError::bug(format!("an archive cannot be read: {error}"));
    let length = file.metadata().map_err(failed)?.len();
    file.rewind().map_err(failed)?;
    let pieces = futures_util::stream::unfold(file, |mut file| async move {
        let read = tokio::task::spawn_blocking(move || {
            let mut piece = vec![0; PIECE_BYTES];
            let read = file.read(&mut piece);
            (file, read.map(|read| piece[..read].to_vec()))
        });
        match read.await {
            Ok((_, Ok(piece))) if piece.is_empty() => None,
            Ok((file, piece)) => Some((piece.map(Bytes::from), file)),
            Err(_) => None,
        }
    });
    let headers = [(header::CONTENT_TYPE, ARCHIVE.to_owned()), (header::CONTENT_LENGTH, length.to_string())];
    Ok((headers, Body::from_stream(pieces)).into_response())
}

/// Writes a request body to an unnamed temporary file.
async fn save_body(artifacts: &ArtifactStore, mut body: Body) -> Result<File, AppError> {
    use std::io::Seek as _;
    let failed = |error: String| AppError::bug(format!("an artifact cannot be received: {error}"));
    let mut file = artifacts.upload_file().map_err(|error| failed(error.to_string()))?;
    let mut length = 0;
    while let Some(piece) = next_frame(&mut body).await? {
        length += piece.len() as u64;
        if length > ARTIFACT_UPLOAD_BYTES_MAX {
            let text = format!("an artifact may have at most {ARTIFACT_UPLOAD_BYTES_MAX} bytes");
            return Err(AppError::new(Code::BodyTooLarge, text));
        }
        let written = tokio::task::spawn_blocking(move || file.write_all(&piece).map(|()| file));
        file =
            written.await.map_err(|error| failed(error.to_string()))?.map_err(|e| failed(e.to_string()))?;
    }
    file.rewind().map_err(|error| failed(error.to_string()))?;
    Ok(file)
}
