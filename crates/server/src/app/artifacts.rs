//! Artifacts of deployments: list and download.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use axum::body::Bytes;
use berth_api::artifact as wire;
use berth_api::problem::Code;
use berth_core::access::{Action, permit};
use berth_core::id::DeploymentId;
use berth_engine::artifacts::ArtifactError;
use berth_store::tables::{deployment, run};
use futures_util::Stream;

use super::follow::StreamAccess;
use super::resource_access::require_readable;
use super::{ApiResponse, App};
use crate::auth::authorize::AuthorizedCaller;
use crate::error::AppError;
use crate::streams::StreamSlot;

/// Number of bytes per chunk of a download.
const CHUNK_BYTES: usize = 256 * 1024;

/// The archive of an artifact.
pub struct ArtifactDownload<S> {
    pub digest: String,
    pub bytes: u64,
    pub content: S,
}

/// An artifact that a step has stored.
struct StepArtifact {
    step: String,
    name: String,
    digest: String,
}

impl App {
    pub async fn list_artifacts(
        &self,
        who: &AuthorizedCaller<permit::DeploymentsRead>,
        id: String,
    ) -> Result<ApiResponse<wire::DeploymentArtifacts>, AppError> {
        let (found, org) = (self.find_artifacts(who, id).await?, who.org());
        let store = self.services.artifacts.clone();
        let listed = self.services.transfers.run(org, move || {
            let sized = found.into_iter().map(|it| {
                let bytes = store.size_of(org, &it.digest)?;
                let StepArtifact { step: step_id, name, digest } = it;
                Ok(wire::DeploymentArtifact { name, digest, step_id, bytes })
            });
            sized.collect::<Result<Vec<_>, ArtifactError>>()
        });
        let artifacts = listed.await?.map_err(artifact_read_error)?;
        Ok(ApiResponse::ok(wire::DeploymentArtifacts { artifacts }))
    }

    /// Downloads an artifact of this name. If several steps have stored one, the last one, or the one with the given
    /// digest.
    pub async fn download_artifact(
        self: &Arc<Self>,
        who: AuthorizedCaller<permit::DeploymentsRead>,
        id: String,
        name: &str,
        digest: Option<&str>,
    ) -> Result<ArtifactDownload<impl Stream<Item = io::Result<Bytes>> + use<>>, AppError> {
        let place = self.take_stream(&who)?;
        let found = self.find_artifacts(&who, id).await?;
        let is_wanted =
            |it: &StepArtifact| it.name == name && digest.is_none_or(|digest| digest == it.digest);
        let wanted = found.into_iter().rev().find(is_wanted);
        let digest = wanted.ok_or_else(|| AppError::not_found("artifact"))?.digest;
        let (store, org, of) = (self.services.artifacts.clone(), who.org(), digest.clone());
        // Object storage verifies the archive before its first byte is sent.
        let opened = self.services.transfers.run(org, move || {
            let file = store.open_packed(org, &of)?;
            let bytes = file.metadata()?.len();
            Ok((file, bytes))
        });
        let (file, bytes) = opened.await?.map_err(artifact_read_error)?;
        let right = StreamAccess::new(self.clone(), who);
        let sending = ArtifactDownloadState { right, file: Arc::new(file), at: 0, end: bytes, _slot: place };
        let content = futures_util::stream::unfold(sending, ArtifactDownloadState::next);
        Ok(ArtifactDownload { digest, bytes, content })
    }

    async fn find_artifacts(
        &self,
        who: &AuthorizedCaller<permit::DeploymentsRead>,
        id: String,
    ) -> Result<Vec<StepArtifact>, AppError> {
        let access = who.access().clone();
        self.read(who, move |db| {
            let missing = || AppError::not_found("deployment");
            let id: DeploymentId = id.parse().map_err(|_| missing())?;
            let found = deployment::by_id(db, id)?.ok_or_else(missing)?;
            require_readable(db, &access, Action::DeploymentsRead, &found)?;
            let steps = run::by_id(db, id)?.into_iter().flat_map(|run| run.steps);
            let of_step = steps.flat_map(|step| {
                let id = step.id.to_string();
                let artifacts = step.artifacts.clone().into_iter();
                artifacts.map(move |(name, digest)| StepArtifact { step: id.clone(), name, digest })
            });
            Ok(of_step.collect())
        })
        .await
    }
}

fn artifact_read_error(error: ArtifactError) -> AppError {
    match error {
        ArtifactError::Unknown(_) => AppError::new(Code::NotFound, error.to_string()),
        ArtifactError::Storage(_) if error.is_temporary() => {
            tracing::warn!(%error, "reading an artifact from object storage failed");
            AppError::busy("object storage does not respond; try again")
        }
        other => AppError::bug(other.to_string()),
    }
}

struct ArtifactDownloadState {
    right: StreamAccess<permit::DeploymentsRead>,
    file: Arc<File>,
    at: u64,
    end: u64,
    _slot: StreamSlot,
}

impl ArtifactDownloadState {
    /// On an error the connection is aborted, so that a client does not mistake a partial archive for a complete one.
    async fn next(mut self) -> Option<(io::Result<Bytes>, Self)> {
        if self.at >= self.end {
            return None;
        }
        let part = self.next_part().await;
        match &part {
            Ok(bytes) => self.at += bytes.len() as u64,
            Err(_) => self.at = self.end,
        }
        Some((part.map_err(io::Error::other), self))
    }

    async fn next_part(&mut self) -> Result<Bytes, &'static str> {
        if self.right.app.services.shutdown.is_cancelled() {
            return Err("the server is stopping");
        }
        if !self.right.is_still_allowed().await {
            return Err("the permission to read artifacts was revoked");
        }
        let (file, at) = (self.file.clone(), self.at);
        let count = usize::try_from(self.end - at).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES);
        let read = tokio::task::spawn_blocking(move || {
            let mut bytes = vec![0; count];
            file.read_exact_at(&mut bytes, at).map(|()| bytes)
        });
        let read = read.await.map_err(|_| "reading the artifact failed")?;
        read.map(Bytes::from).map_err(|error| {
            tracing::error!(%error, "artifact download aborted");
            "the artifact cannot be read"
        })
    }
}
