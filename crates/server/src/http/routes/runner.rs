//! Endpoints of the runner protocol. `runners` has those for managing runners.

use std::fs::File;
use std::io::Write as _;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{Extension, State};
use axum::response::{IntoResponse, Response};
use berth_api::Data;
use berth_api::problem::Code;
use berth_api::remote::{
    AcquireAsked, Acquired, ArtifactKept, Farewell, Goodbye, HeartbeatHeard, HeartbeatSent, Hello, LogTaken,
    Register, Registered, Welcome,
};
use berth_api::runner::{Report, Reported};
use berth_engine::artifacts::ArtifactStore;
use http::header;

use crate::app::{Answer, App};
use crate::error::AppError;
use crate::http::body::{Spoken, next_frame, raw};
use crate::http::guard::RunnerRequest;
use crate::http::query::Params;
use crate::limits::LOG_CHUNK_BYTES_MAX;
use crate::limits::{ARTIFACT_UPLOAD_BYTES_MAX, OFFSET_MAX};
use berth_engine::RunnerCaller;

/// Paths with a longer timeout.
pub(crate) const TRANSFERS: &[&str] =
    &["/api/v1/runner/source", "/api/v1/runner/artifact", "/api/v1/runner/registry"];
const PIECE_BYTES: usize = 64 * 1024;
const ARCHIVE: &str = "application/zstd";

/// Register a runner. Exchanges its registration token for a credential.
#[utoipa::path(post, path = "/api/v1/runner/register", tag = "runner protocol",
    request_body = Register, responses((status = 200, body = Data<Registered>)))]
pub(crate) async fn register_runner(
    State(app): State<Arc<App>>,
    Extension(who): Extension<RunnerCaller>,
    Spoken(said): Spoken<Register>,
) -> Result<Answer<Registered>, AppError> {
    app.register_runner(who, said).await
}

/// Start a runner process. First request of every process; ends the leases of the previous one.
#[utoipa::path(post, path = "/api/v1/runner/hello", tag = "runner protocol",
    request_body = Hello, responses((status = 200, body = Data<Welcome>)))]
pub(crate) async fn runner_hello(
    State(app): State<Arc<App>>,
    RunnerRequest(far): RunnerRequest,
    Spoken(said): Spoken<Hello>,
) -> Result<Answer<Welcome>, AppError> {
    app.runner_hello(&far, said).await.map(Answer::ok)
}

/// Acquire work, waiting until there is some. Repeating the same nonces returns the same work.
#[utoipa::path(post, path = "/api/v1/runner/acquire", tag = "runner protocol",
    request_body = AcquireAsked, responses((status = 200, body = Data<Acquired>)))]
pub(crate) async fn runner_acquire(
    RunnerRequest(far): RunnerRequest,
    Spoken(asked): Spoken<AcquireAsked>,
) -> Result<Answer<Acquired>, AppError> {
    Ok(Answer::ok(Acquired { assignments: far.acquire(asked).await? }))
}

/// Send a heartbeat. Responds immediately if a step has to stop.
#[utoipa::path(post, path = "/api/v1/runner/heartbeat", tag = "runner protocol",
    request_body = HeartbeatSent, responses((status = 200, body = Data<HeartbeatHeard>)))]
pub(crate) async fn runner_heartbeat(
    RunnerRequest(far): RunnerRequest,
    Spoken(sent): Spoken<HeartbeatSent>,
) -> Result<Answer<HeartbeatHeard>, AppError> {
    Ok(Answer::ok(HeartbeatHeard { told: far.heartbeat(sent).await? }))
}

/// Append to a log. The body is written at `offset`; bytes that are already stored are not written again.
#[utoipa::path(post, path = "/api/v1/runner/log", tag = "runner protocol",
    params(("attempt" = String, Query, description = "Nonce of the attempt"),
        ("offset" = i64, Query, minimum = 0, description = "Offset in the log of the first byte of the body")),
    responses((status = 200, body = Data<LogTaken>)))]
pub(crate) async fn runner_log(
    RunnerRequest(far): RunnerRequest,
    params: Params,
    body: Body,
) -> Result<Answer<LogTaken>, AppError> {
    let nonce = required(&params, "attempt")?;
    let offset = params.whole("offset", 0, OFFSET_MAX)?;
    let offset = offset.ok_or_else(|| AppError::invalid_parameter("offset", "is missing"))?;
    let bytes = raw(body, LOG_CHUNK_BYTES_MAX).await?;
    let order = far.append_log(nonce, offset.unsigned_abs(), bytes).await?;
    Ok(Answer::ok(LogTaken { order }))
}

/// Report how an attempt ended. The response may contain the next step of the same deployment.
#[utoipa::path(post, path = "/api/v1/runner/report", tag = "runner protocol",
    request_body = Report, responses((status = 200, body = Data<Reported>)))]
pub(crate) async fn runner_report(
    RunnerRequest(far): RunnerRequest,
    Spoken(report): Spoken<Report>,
) -> Result<Answer<Reported>, AppError> {
    Ok(Answer::ok(far.report(report).await?))
}

/// Download the pinned commit of an attempt as a tar archive compressed with zstd.
#[utoipa::path(get, path = "/api/v1/runner/source", tag = "runner protocol",
    params(("attempt" = String, Query, description = "Nonce of the attempt")),
    responses((status = 200, description = "The archive", content_type = "application/zstd")))]
pub(crate) async fn runner_source(
    RunnerRequest(far): RunnerRequest,
    params: Params,
) -> Result<Response, AppError> {
    sent(far.source(&required(&params, "attempt")?).await?)
}

/// Download an artifact of an earlier step as a tar archive compressed with zstd.
#[utoipa::path(get, path = "/api/v1/runner/artifact", tag = "runner protocol",
    params(("attempt" = String, Query, description = "Nonce of the attempt"),
        ("name" = String, Query, description = "Name of the artifact")),
    responses((status = 200, description = "The archive", content_type = "application/zstd")))]
pub(crate) async fn runner_artifact(
    RunnerRequest(far): RunnerRequest,
    params: Params,
) -> Result<Response, AppError> {
    let name = required(&params, "name")?;
    sent(far.artifact(&required(&params, "attempt")?, name).await?)
}

/// Upload an artifact. The body is a tar archive compressed with zstd; paths are relative to the workspace.
#[utoipa::path(post, path = "/api/v1/runner/artifact", tag = "runner protocol",
    params(("attempt" = String, Query, description = "Nonce of the attempt"),
        ("name" = String, Query, description = "Name of the artifact")),
    responses((status = 200, body = Data<ArtifactKept>)))]
pub(crate) async fn runner_keep_artifact(
    RunnerRequest(far): RunnerRequest,
    params: Params,
    body: Body,
) -> Result<Answer<ArtifactKept>, AppError> {
    let (nonce, name) = (required(&params, "attempt")?, required(&params, "name")?);
    far.check_attempt(&nonce).await?;
    let packed = received(&far.services.artifacts, body).await?;
    Ok(Answer::ok(ArtifactKept { digest: far.keep_artifact(&nonce, name, packed).await? }))
}

/// Download a built step registry that the deployment uses, as a tar archive compressed with zstd.
#[utoipa::path(get, path = "/api/v1/runner/registry", tag = "runner protocol",
    params(("attempt" = String, Query, description = "Nonce of the attempt"),
        ("digest" = String, Query, description = "Digest of the registry")),
    responses((status = 200, description = "The archive", content_type = "application/zstd")))]
pub(crate) async fn runner_registry(
    RunnerRequest(far): RunnerRequest,
    params: Params,
) -> Result<Response, AppError> {
    let digest = required(&params, "digest")?;
    sent(far.registry(&required(&params, "attempt")?, digest).await?)
}

/// End a runner process. Sent on a clean shutdown, when none of its steps run any more.
#[utoipa::path(post, path = "/api/v1/runner/goodbye", tag = "runner protocol",
    request_body = Goodbye, responses((status = 200, body = Data<Farewell>)))]
pub(crate) async fn runner_goodbye(
    RunnerRequest(far): RunnerRequest,
    Spoken(said): Spoken<Goodbye>,
) -> Result<Answer<Farewell>, AppError> {
    far.goodbye(said.boot).await?;
    Ok(Answer::ok(Farewell {}))
}

fn required(params: &Params, name: &str) -> Result<String, AppError> {
    params.text(name)?.ok_or_else(|| AppError::invalid_parameter(name, "is missing"))
}

/// Streams a file in chunks.
fn sent(mut file: File) -> Result<Response, AppError> {
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
async fn received(artifacts: &ArtifactStore, mut body: Body) -> Result<File, AppError> {
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
