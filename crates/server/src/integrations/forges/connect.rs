//! Makes the client for a repository's forge, and runs its blocking calls on threads.

use berth_core::id::OrgId;
use berth_core::repository::Repository;
use berth_engine::Services;
use berth_engine::git::GitCredential;
use tokio::sync::oneshot;

use super::{ForgeClient, ForgeHost, ForgeRepository};
use crate::error::AppError;

/// Returns the forge client of a repository, with the repository's credential. `None` if the repository is not on a
/// known forge, or has no token for the API.
pub(crate) async fn client_of(
    services: &Services,
    known: &[ForgeHost],
    org: OrgId,
    repository: &Repository,
) -> Result<Option<ForgeClient>, AppError> {
    if ForgeRepository::locate(&repository.url, known).is_none() {
        return Ok(None);
    }
    // Without the secret, the repository cannot be synced either, which is shown as its error.
    let credential = services.repository_credential(org, repository).await?.ok().flatten();
    Ok(client_with(services, known, repository, credential.as_ref()))
}

/// Like [`client_of`], with a credential that the caller has read.
pub(crate) fn client_with(
    services: &Services,
    known: &[ForgeHost],
    repository: &Repository,
    credential: Option<&GitCredential>,
) -> Option<ForgeClient> {
    let (forge, at) = ForgeRepository::locate(&repository.url, known)?;
    let token = credential.and_then(GitCredential::token)?;
    let user = credential.and_then(GitCredential::user).map(str::to_owned);
    Some(ForgeClient { egress: services.egress.clone(), forge, at, user, token })
}

/// Runs `ask` on a separate thread, so that a hanging server does not block shutdown.
pub(crate) async fn run_on_thread<T: Send + 'static>(
    ask: impl FnOnce() -> T + Send + 'static,
) -> Result<T, AppError> {
    let (tell, answer) = oneshot::channel();
    let started = std::thread::Builder::new().name("outgoing".into()).spawn(move || {
        // This fails only if the server is stopping and the receiver no longer exists.
        let _ = tell.send(ask());
    });
    started.map_err(|error| AppError::bug(format!("cannot start a thread: {error}")))?;
    answer.await.map_err(|_| AppError::bug("an outgoing request broke"))
}
