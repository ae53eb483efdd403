//! Removes old events, oldest first, for each organization.
//!
//! Normally each organization has one pass a day. A pass begins when the oldest event has exceeded the retention period
//! by a day, and removes all events that have exceeded it, up to a limit. Events are thus kept up to a day longer than
//! configured, but the audit log gets few events about removals.

use std::sync::Arc;
use std::time::Duration;

use berth_core::id::OrgId;
use berth_store::TxContext;
use berth_store::tables::event_retention::{self, AnnouncedRemoval, REMOVED_PASS_MAX};
use berth_store::tables::organization;

use crate::error::AppError;
use crate::jobs::BackgroundJobs;
use crate::worker::{BackgroundJob, TurnResult};

const LOOK_EVERY: Duration = Duration::from_secs(60 * 60);
const DAY_S: i64 = 24 * 60 * 60;
/// Pause between batches, so that other transactions can write.
const BATCH_PAUSE: Duration = Duration::from_millis(50);

pub(in crate::jobs) struct EventRetention(pub(in crate::jobs) Arc<BackgroundJobs>);

impl BackgroundJob for EventRetention {
    const NAME: &'static str = "event retention";

    async fn turn(&self) -> Result<TurnResult, AppError> {
        let removed = remove_old_events(&self.0).await?;
        if removed > 0 {
            tracing::info!(removed, "removed old events");
        }
        // If the pass reached its limit, there may be more events to remove.
        if removed < REMOVED_PASS_MAX {
            return Ok(TurnResult::Idle);
        }
        tokio::time::sleep(BATCH_PAUSE).await;
        Ok(TurnResult::Again)
    }

    async fn wait(&self) {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Makes one pass over all organizations and returns the number of removed events.
async fn remove_old_events(jobs: &BackgroundJobs) -> Result<usize, AppError> {
    let Some(kept) = jobs.config.events_kept else { return Ok(0) };
    let seconds = i64::try_from(kept.as_secs()).unwrap_or(i64::MAX);
    let (mut after, mut removed) = (None, 0);
    loop {
        let read =
            jobs.services.store.read(None, move |db| Ok::<_, AppError>(organization::list_ids(db, after)?));
        let page = read.await?;
        let Some((last, _)) = page.last() else { return Ok(removed) };
        after = Some(*last);
        for (org, slug) in page {
            // If an audit log is damaged, keep its events and continue with the other organizations.
            match remove_of_organization(jobs, org, seconds).await {
                Ok(count) => removed += count,
                Err(error) => tracing::warn!(?error, organization = slug, "cannot remove old events"),
            }
        }
    }
}

async fn remove_of_organization(jobs: &BackgroundJobs, org: OrgId, seconds: i64) -> Result<usize, AppError> {
    let due = jobs.services.store.read(Some(org), move |db| {
        let before = db.now().plus_seconds(-seconds);
        Ok::<_, AppError>(event_retention::find_due(db, before, before.plus_seconds(-DAY_S))?)
    });
    let Some(through) = due.await? else { return Ok(0) };
    // Commit the first batch together with the event that announces the removal, so that a failing pass records no
    // event.
    let begun = jobs.services.store.transact(TxContext::system(Some(org)), move |tx| {
        let announced = event_retention::announce_removal(tx, through, seconds / DAY_S)?;
        Ok::<_, AppError>((announced, event_retention::remove_batch(tx, announced)?))
    });
    let (announced, mut removed) = begun.await?;
    while !jobs.services.shutdown.is_cancelled() {
        jobs.services.shutdown.run_until_cancelled(tokio::time::sleep(BATCH_PAUSE)).await;
        match remove_batch(jobs, org, announced).await? {
            0 => break,
            count => removed += count,
        }
    }
    Ok(removed)
}

async fn remove_batch(
    jobs: &BackgroundJobs,
    org: OrgId,
    announced: AnnouncedRemoval,
) -> Result<usize, AppError> {
    let removed = jobs.services.store.transact(TxContext::system(Some(org)), move |tx| {
        Ok::<_, AppError>(event_retention::remove_batch(tx, announced)?)
    });
    removed.await
}
