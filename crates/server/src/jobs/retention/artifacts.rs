//! Removes the artifacts of old deployments, in two steps.
//!
//! First, the database marks the deployment's artifacts as removed, so that no later deployment reuses its build. A day
//! later, the files are deleted unless they were stored again or are still referenced. Deployments that a stage can
//! roll back to keep their artifacts.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use berth_core::id::OrgId;
use berth_core::time::Timestamp;
use berth_store::TxContext;
use berth_store::tables::{organization, registry_build, retention};

use crate::error::AppError;
use crate::jobs::BackgroundJobs;
use crate::worker::{BackgroundJob, TurnResult};

const LOOK_EVERY: Duration = Duration::from_secs(60 * 60);
/// Number of deployments per batch.
const BATCH_MAX: i64 = 50;
/// Pause between batches, to limit disk load.
const BATCH_PAUSE: Duration = Duration::from_millis(200);
/// Maximum number of files checked for references at once.
const FILES_MAX: usize = 10_000;
/// Number of deployments per stage that keep their artifacts as rollback candidates.
const GOOD_KEPT: i64 = 10;
/// Time between marking artifacts as removed and deleting the files, in seconds. A backup in progress may still refer
/// to the files.
const GIVEN_UP_S: i64 = 24 * 60 * 60;

pub(in crate::jobs) struct ArtifactRetention(pub(in crate::jobs) Arc<BackgroundJobs>);

impl BackgroundJob for ArtifactRetention {
    const NAME: &'static str = "artifact retention";

    async fn turn(&self) -> Result<TurnResult, AppError> {
        let removed = remove_old_artifacts(&self.0).await?;
        if removed > 0 {
            tracing::info!(removed, "removed old artifacts");
        }
        Ok(TurnResult::Idle)
    }

    async fn wait(&self) {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Runs both steps and returns the number of deleted files.
async fn remove_old_artifacts(jobs: &BackgroundJobs) -> Result<usize, AppError> {
    let Some(kept) = jobs.config.artifacts_kept else { return Ok(0) };
    let seconds = i64::try_from(kept.as_secs()).unwrap_or(i64::MAX);
    while !jobs.services.shutdown.is_cancelled() && mark_batch_removed(jobs, seconds).await? > 0 {
        jobs.services.shutdown.run_until_cancelled(tokio::time::sleep(BATCH_PAUSE)).await;
    }
    let (mut after, mut removed) = (None, 0);
    loop {
        let read =
            jobs.services.store.read(None, move |db| Ok::<_, AppError>(organization::list_ids(db, after)?));
        let page = read.await?;
        let Some((last, _)) = page.last() else { return Ok(removed) };
        after = Some(*last);
        for (org, _) in page {
            removed += delete_unreferenced(jobs, org, seconds).await?;
        }
    }
}

/// Marks the artifacts of one batch of deployments as removed, and returns the number of deployments.
async fn mark_batch_removed(jobs: &BackgroundJobs, seconds: i64) -> Result<usize, AppError> {
    let looked = jobs.services.store.read(None, move |db| {
        let before = db.now().plus_seconds(-seconds);
        Ok::<_, AppError>((before, retention::list_old_artifacts(db, before, GOOD_KEPT, BATCH_MAX)?))
    });
    let (before, found) = looked.await?;
    let mut done = 0;
    for (org, deployment) in found {
        let given = jobs.services.store.transact(TxContext::system(Some(org)), move |tx| {
            Ok::<_, AppError>(retention::mark_artifacts_removed(tx, deployment, before)?)
        });
        done += usize::from(given.await?);
    }
    Ok(done)
}

/// Deletes the old files of one organization that are no longer referenced.
async fn delete_unreferenced(jobs: &BackgroundJobs, org: OrgId, seconds: i64) -> Result<usize, AppError> {
    let (mut after, mut removed) = (None::<String>, 0);
    while !jobs.services.shutdown.is_cancelled() {
        let now = jobs.services.store.read(None, |db| Ok::<_, AppError>(db.now())).await?;
        let (limit, lately) = (as_time(now.plus_seconds(-seconds)), now.plus_seconds(-GIVEN_UP_S));
        let artifacts = jobs.services.artifacts.clone();
        let old = run_blocking(move || artifacts.list_older(org, limit, after.as_deref(), FILES_MAX)).await?;
        let Some(last) = old.last().cloned() else { break };
        after = Some(last);
        let unneeded = find_unreferenced(jobs, org, old.into_iter().collect(), lately).await?;
        let artifacts = jobs.services.artifacts.clone();
        removed += run_blocking(move || {
            let mut removed = 0;
            for digest in unneeded {
                removed += usize::from(artifacts.remove_older(org, &digest, limit)?);
            }
            Ok(removed)
        })
        .await?;
    }
    Ok(removed)
}

/// Returns the files that neither a deployment nor a registry refers to.
async fn find_unreferenced(
    jobs: &BackgroundJobs,
    org: OrgId,
    mut digests: BTreeSet<String>,
    lately: Timestamp,
) -> Result<BTreeSet<String>, AppError> {
    let mut after = None;
    while !digests.is_empty() {
        let from = after.take();
        let read = jobs.services.store.read(Some(org), move |db| {
            Ok::<_, AppError>(retention::list_referenced_artifacts(db, from.as_ref(), lately)?)
        });
        let page = read.await?;
        let Some(last) = page.last() else { break };
        after = Some(last.clone());
        for digest in page.iter().flat_map(|it| it.artifacts.values()) {
            digests.remove(digest);
        }
    }
    let mut after = None;
    while !digests.is_empty() {
        let from = after.take();
        let read = jobs
            .services
            .store
            .read(Some(org), move |db| Ok::<_, AppError>(registry_build::list_artifacts(db, from.as_ref())?));
        let page = read.await?;
        let Some(last) = page.last() else { break };
        after = Some(last.clone());
        for built in &page {
            digests.remove(&built.digest);
        }
    }
    Ok(digests)
}

fn as_time(at: Timestamp) -> SystemTime {
    UNIX_EPOCH + Duration::from_micros(u64::try_from(at.as_micros()).unwrap_or_default())
}

async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, berth_engine::artifacts::ArtifactError> + Send + 'static,
) -> Result<T, AppError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(|error| AppError::Fault(error.to_string())),
        Err(_) => Err(AppError::bug("removing artifacts broke")),
    }
}
