//! Writes statuses to forges.

use berth_core::commit_status::{CommitStatusRecord, WriteResult, retry_pause_s};
use berth_core::id::{OrgId, RepositoryId};
use berth_store::TxContext;
use berth_store::tables::{commit_status, organization, repository};

use super::StatusWriter;
use crate::error::AppError;
use crate::integrations::forges::{CommitStatus, ForgeError, client_of, run_on_thread};

/// Maximum number of repositories with due statuses that are read per turn.
const DUE_BATCH_MAX: i64 = 100;
/// How long no status of a repository is written after the forge rejected its credential.
const NOT_ALLOWED_PAUSE_S: i64 = 15 * 60;
/// How long to wait if the forge's rate limit was reached and it does not say for how long.
const BUSY_PAUSE_S: i64 = 60;

/// Writes one due status. Returns `false` if there is none that may be written now.
pub(super) async fn write_next(job: &StatusWriter) -> Result<bool, AppError> {
    let due =
        job.services.store.read(None, |db| Ok::<_, AppError>(commit_status::list_due(db, DUE_BATCH_MAX)?));
    let mut due = due.await?.into_iter();
    let free = due.find_map(|(org, repository)| {
        let of_repository = job.repositories.try_enter(repository)?;
        Some(((of_repository, job.organizations.try_enter(org)?), org, repository))
    });
    let Some((_permits, org, repository)) = free else { return Ok(false) };
    let written = write_status(job, org, repository);
    // If the server stops, the status remains due.
    job.services
        .shutdown
        .run_until_cancelled(written)
        .await
        .transpose()
        .map(|written| written.unwrap_or(false))
}

/// Writes the next status of a repository and records the result. Returns `false` if there is none.
async fn write_status(job: &StatusWriter, org: OrgId, id: RepositoryId) -> Result<bool, AppError> {
    let next = job.services.store.read(Some(org), move |db| {
        let (status, repository) = (commit_status::find_next(db, id)?, repository::by_id(db, id)?);
        Ok::<_, AppError>((status, repository, organization::by_id(db, org)?))
    });
    let (Some(status), repository, Some(organization)) = next.await? else { return Ok(false) };
    let client = match &repository {
        Some(repository) => client_of(&job.services, &job.config.forges, org, repository).await?,
        None => None,
    };
    let (result, pause_s) = match client {
        Some(client) => {
            let base = job.config.public_url.as_deref();
            let link = |base| format!("{base}/o/{}/deployments/{}", organization.slug, status.deployment);
            let wanted = CommitStatus {
                context: status.context.clone(),
                state: status.state,
                description: status.description.clone(),
                target_url: base.map(link),
            };
            let commit = status.commit.clone();
            let sent = run_on_thread(move || client.set_status(&commit, &wanted)).await?;
            describe_result(sent, status.failures)
        }
        None => {
            let error = "the repository is not on a known forge, or has no token for its API".to_owned();
            (WriteResult::Impossible { error }, None)
        }
    };
    store_result(job, org, status, result, pause_s).await.map(|()| true)
}

/// Returns the result, and for how many seconds no status of the repository is written.
fn describe_result(sent: Result<(), ForgeError>, failures: i64) -> (WriteResult, Option<i64>) {
    let Err(error) = sent else { return (WriteResult::Written, None) };
    let pause_s = match &error {
        ForgeError::NotAllowed => Some(NOT_ALLOWED_PAUSE_S),
        ForgeError::Busy(wait) => {
            let wait = wait.and_then(|wait| i64::try_from(wait.as_secs()).ok());
            Some(wait.unwrap_or(BUSY_PAUSE_S))
        }
        ForgeError::Refused { status: 500.., .. } | ForgeError::Unreachable(_) | ForgeError::Odd => {
            Some(retry_pause_s(failures + 1))
        }
        // Only this commit is affected: the forge may not have it yet, or not any more.
        ForgeError::NotFound | ForgeError::Refused { .. } => None,
    };
    (WriteResult::Retry { error: error.to_string(), wait_s: pause_s.unwrap_or(0) }, pause_s)
}

async fn store_result(
    job: &StatusWriter,
    org: OrgId,
    sent: CommitStatusRecord,
    result: WriteResult,
    pause_s: Option<i64>,
) -> Result<(), AppError> {
    let stored = job.services.store.transact(TxContext::system(Some(org)), move |tx| {
        let now = tx.now();
        let current = commit_status::by_context(tx, sent.repository, &sent.commit, &sent.context)?;
        let Some(current) = current else { return Ok::<_, AppError>(None) };
        let after = current.record_write(sent.version, &result, now);
        commit_status::put(tx, &after)?;
        if let Some(pause_s) = pause_s {
            commit_status::pause(tx, sent.repository, now.plus_seconds(pause_s))?;
        }
        Ok(Some(after))
    });
    if let Some(after) = stored.await?
        && let Some(error) = &after.error
    {
        let (repository, context, failures) = (after.repository, &after.context, after.failures);
        match after.due_at {
            Some(_) => {
                tracing::info!(%error, %repository, %context, failures, "cannot write commit status; retrying");
            }
            None => tracing::warn!(%error, %repository, %context, failures, "gave up writing commit status"),
        }
    }
    Ok(())
}
