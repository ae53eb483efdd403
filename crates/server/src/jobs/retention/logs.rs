//! Removes the logs of old deployments in small batches.
//!
//! Logs of unfinished deployments and recently written files are kept. The content of a removed log is replaced with
//! one line that says so.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use berth_engine::logs::ReplaceReport;
use berth_store::TxContext;
use berth_store::tables::retention;

use crate::error::AppError;
use crate::jobs::BackgroundJobs;
use crate::worker::{BackgroundJob, TurnResult};

const LOOK_EVERY: Duration = Duration::from_secs(60);
/// Number of deployments per batch.
const BATCH_MAX: i64 = 50;
/// Pause between batches, to limit disk load.
const BATCH_PAUSE: Duration = Duration::from_millis(200);

pub(in crate::jobs) struct LogRetention(pub(in crate::jobs) Arc<BackgroundJobs>);

impl BackgroundJob for LogRetention {
    const NAME: &'static str = "log retention";

    async fn turn(&self) -> Result<TurnResult, AppError> {
        if remove_old_logs(&self.0).await? == 0 {
            return Ok(TurnResult::Idle);
        }
        tokio::time::sleep(BATCH_PAUSE).await;
        Ok(TurnResult::Again)
    }

    async fn wait(&self) {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Runs one batch and returns the number of deployments whose logs were removed.
async fn remove_old_logs(jobs: &BackgroundJobs) -> Result<usize, AppError> {
    let Some(kept) = jobs.config.logs_kept else { return Ok(0) };
    let seconds = i64::try_from(kept.as_secs()).unwrap_or(i64::MAX);
    let looked = jobs.services.store.read(None, move |db| {
        let before = db.now().plus_seconds(-seconds);
        Ok::<_, AppError>((before, retention::list_old_logs(db, before, BATCH_MAX)?))
    });
    let (before, found) = looked.await?;
    let limit = UNIX_EPOCH + Duration::from_micros(u64::try_from(before.as_micros()).unwrap_or_default());
    let mut done = 0;
    for (org, deployment) in found {
        let (logs, text) = (jobs.services.logs.clone(), removal_note(seconds));
        let replaced =
            tokio::task::spawn_blocking(move || logs.replace_older(org, deployment, text.as_bytes(), limit));
        match replaced.await {
            Ok(Ok(ReplaceReport { replaced, kept: 0 })) => {
                tracing::debug!(%deployment, replaced, "removed old logs");
            }
            // Some files are too recent, because the deployment was retried or its files were copied. Their retention
            // period starts over.
            Ok(Ok(_)) => continue,
            Ok(Err(error)) => {
                tracing::warn!(%error, %deployment, "cannot remove old logs");
                continue;
            }
            Err(_) => return Err(AppError::bug("removing logs broke")),
        }
        // Update the row last, so that an interrupted batch is repeated.
        let noted = jobs.services.store.transact(TxContext::system(Some(org)), move |tx| {
            Ok::<_, AppError>(retention::mark_logs_removed(tx, deployment, before)?)
        });
        done += usize::from(noted.await?);
    }
    Ok(done)
}

fn removal_note(seconds: i64) -> String {
    let days = seconds / (24 * 60 * 60);
    format!("[berth] this log was removed: logs are kept for {days} days (retention.log_days)\n")
}
