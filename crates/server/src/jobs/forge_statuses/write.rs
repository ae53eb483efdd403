//! Writes statuses to forges.

use berth_core::commit_status::CommitStatusRecord;
use berth_core::id::{OrgId, RepositoryId};
use berth_store::TxContext;
use berth_store::tables::{commit_status, organization, repository};

use super::StatusWriter;
use super::outcome::WriteOutcome;
use crate::error::AppError;
use crate::integrations::forges::{CommitStatus, client_of, run_on_thread};

/// Maximum number of repositories with due statuses that are read per turn.
const DUE_BATCH_MAX: i64 = 100;

/// Writes one due status. Returns `false` if there is none that may be written now.
pub(super) async fn write_next(job: &StatusWriter) -> Result<bool, AppError> {
    let due =
        job.services.store.read(None, |db| Ok::<_, AppError>(commit_status::list_due(db, DUE_BATCH_MAX)?));
    let Some(permit) = job.enter_first(due.await?) else { return Ok(false) };
    let written = write_status(job, permit.org, permit.repository);
    // If the server stops, the status remains due.
    let written = job.services.shutdown.run_until_cancelled(written).await.transpose()?;
    Ok(written.unwrap_or(false))
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
    let outcome = match client {
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
            WriteOutcome::new(sent, status.write.failures)
        }
        None => WriteOutcome::without_client(),
    };
    store_outcome(job, org, status, outcome).await.map(|()| true)
}

async fn store_outcome(
    job: &StatusWriter,
    org: OrgId,
    sent: CommitStatusRecord,
    outcome: WriteOutcome,
) -> Result<(), AppError> {
    let stored = job.services.store.transact(TxContext::system(Some(org)), move |tx| {
        let now = tx.now();
        let current = commit_status::by_context(tx, sent.repository, &sent.commit, &sent.context)?;
        let Some(current) = current else { return Ok::<_, AppError>(None) };
        let write = current.write.after_attempt(sent.write.version, &outcome.result, now);
        let after = CommitStatusRecord { write, ..current };
        commit_status::put(tx, &after)?;
        if let Some(pause_s) = outcome.pause_s {
            commit_status::pause(tx, sent.repository, now.plus_seconds(pause_s))?;
        }
        Ok(Some(after))
    });
    if let Some(after) = stored.await?
        && let Some(error) = &after.write.error
    {
        let (repository, context, failures) = (after.repository, &after.context, after.write.failures);
        match after.write.due_at {
            Some(_) => {
                tracing::info!(%error, %repository, %context, failures, "cannot write commit status; retrying");
            }
            None => tracing::warn!(%error, %repository, %context, failures, "gave up writing commit status"),
        }
    }
    Ok(())
}
