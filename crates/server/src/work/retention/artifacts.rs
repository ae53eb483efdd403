//! Artifacts of deployments that ended long ago go, in two acts.
//!
//! First such a deployment gives them up, in the database: no later one takes over what it has built, and nobody misses
//! them. A day later the files go that were not kept again since, and of which nobody speaks any more. What a stage can go
//! back to keeps its artifacts, however old it is.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use berth_core::id::OrgId;
use berth_core::time::Timestamp;
use berth_store::Context;
use berth_store::query::everywhere;
use berth_store::records::retention;

use crate::app::App;
use crate::error::AppError;

const LOOK_EVERY: Duration = Duration::from_secs(60 * 60);
/// Deployments in one go.
const BATCH_MAX: i64 = 50;
/// Between two, so that others get to the disk.
const BATCH_PAUSE: Duration = Duration::from_millis(200);
/// Files that are looked for at once among those that are needed.
const FILES_MAX: usize = 10_000;
/// Of each stage: what it can go back to.
const GOOD_KEPT: i64 = 10;
/// A backup that began before may still speak of what was given up.
const GIVEN_UP_S: i64 = 24 * 60 * 60;

/// Runs until the server stops.
pub(super) async fn retains(app: Arc<App>) {
    if app.config.artifacts_kept.is_none() {
        return app.shutdown.cancelled().await;
    }
    while !app.shutdown.is_cancelled() {
        match retain_artifacts(&app).await {
            Ok(0) => {}
            Ok(removed) => tracing::info!(removed, "old artifacts were removed"),
            Err(error) => {
                tracing::warn!(?error, "old artifacts could not be removed; it is tried again in an hour");
            }
        }
        app.shutdown.run_until_cancelled(tokio::time::sleep(LOOK_EVERY)).await;
    }
}

/// All that is due; says how many files went.
pub async fn retain_artifacts(app: &Arc<App>) -> Result<usize, AppError> {
    let Some(kept) = app.config.artifacts_kept else { return Ok(0) };
    let seconds = i64::try_from(kept.as_secs()).unwrap_or(i64::MAX);
    while !app.shutdown.is_cancelled() && give_up(app, seconds).await? > 0 {
        app.shutdown.run_until_cancelled(tokio::time::sleep(BATCH_PAUSE)).await;
    }
    let (mut after, mut removed) = (None, 0);
    loop {
        let read = app.store.read(None, move |db| Ok::<_, AppError>(everywhere::organizations(db, after)?));
        let page = read.await?;
        let Some((last, _)) = page.last() else { return Ok(removed) };
        after = Some(*last);
        for (org, _) in page {
            removed += clear(app, org, seconds).await?;
        }
    }
}

/// One batch; says how many deployments have given theirs up.
async fn give_up(app: &Arc<App>, seconds: i64) -> Result<usize, AppError> {
    let looked = app.store.read(None, move |db| {
        let before = db.now().plus_seconds(-seconds);
        Ok::<_, AppError>((before, retention::old_artifacts(db, before, GOOD_KEPT, BATCH_MAX)?))
    });
    let (before, found) = looked.await?;
    let mut done = 0;
    for (org, deployment) in found {
        let given = app.store.transact(Context::system(Some(org)), move |tx| {
            Ok::<_, AppError>(retention::give_up_artifacts(tx, deployment, before)?)
        });
        done += usize::from(given.await?);
    }
    Ok(done)
}

/// Files of one organization that are old and of which nobody speaks.
async fn clear(app: &Arc<App>, org: OrgId, seconds: i64) -> Result<usize, AppError> {
    let (mut after, mut removed) = (None::<String>, 0);
    while !app.shutdown.is_cancelled() {
        let now = app.store.read(None, |db| Ok::<_, AppError>(db.now())).await?;
        let (limit, lately) = (as_time(now.plus_seconds(-seconds)), now.plus_seconds(-GIVEN_UP_S));
        let artifacts = app.artifacts.clone();
        let old = blocking(move || artifacts.older(org, limit, after.as_deref(), FILES_MAX)).await?;
        let Some(last) = old.last().cloned() else { break };
        after = Some(last);
        let unneeded = unneeded(app, org, old.into_iter().collect(), lately).await?;
        let artifacts = app.artifacts.clone();
        removed += blocking(move || {
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

/// Those of which neither a deployment nor a registry speaks.
async fn unneeded(
    app: &Arc<App>,
    org: OrgId,
    mut digests: BTreeSet<String>,
    lately: Timestamp,
) -> Result<BTreeSet<String>, AppError> {
    let mut after = None;
    while !digests.is_empty() {
        let from = after.take();
        let read = app
            .store
            .read(Some(org), move |db| Ok::<_, AppError>(retention::spoken_of(db, from.as_ref(), lately)?));
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
        let read =
            app.store.read(Some(org), move |db| Ok::<_, AppError>(everywhere::built(db, from.as_ref())?));
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

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, crate::artifacts::ArtifactError> + Send + 'static,
) -> Result<T, AppError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(|error| AppError::Fault(error.to_string())),
        Err(_) => Err(AppError::bug("removing artifacts broke")),
    }
}
