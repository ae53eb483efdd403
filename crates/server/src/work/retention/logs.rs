//! Logs of deployments that ended long ago go, a few at a time.
//!
//! What has not ended keeps its logs, however old it is, and so does a file that was written since. In the place of each log a line stays that says what became of it.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use berth_store::Context;
use berth_store::records::retention;

use crate::app::App;
use crate::error::AppError;
use crate::logs::Replaced;

const LOOK_EVERY: Duration = Duration::from_secs(60);
/// Deployments in one go.
const BATCH_MAX: i64 = 50;
/// Between two, so that others get to the disk.
const BATCH_PAUSE: Duration = Duration::from_millis(200);

/// Runs until the server stops.
pub(super) async fn retains(app: Arc<App>) {
    if app.config.logs_kept.is_none() {
        return app.shutdown.cancelled().await;
    }
    while !app.shutdown.is_cancelled() {
        let pause = match retain(&app).await {
            Ok(0) => LOOK_EVERY,
            Ok(_) => BATCH_PAUSE,
            Err(error) => {
                tracing::warn!(?error, "old logs could not be removed; it is tried again in a minute");
                LOOK_EVERY
            }
        };
        app.shutdown.run_until_cancelled(tokio::time::sleep(pause)).await;
    }
}

/// One batch; says of how many deployments no log is left.
pub async fn retain(app: &Arc<App>) -> Result<usize, AppError> {
    let Some(kept) = app.config.logs_kept else { return Ok(0) };
    let seconds = i64::try_from(kept.as_secs()).unwrap_or(i64::MAX);
    let looked = app.store.read(None, move |db| {
        let before = db.now().plus_seconds(-seconds);
        Ok::<_, AppError>((before, retention::old_logs(db, before, BATCH_MAX)?))
    });
    let (before, found) = looked.await?;
    let limit = UNIX_EPOCH + Duration::from_micros(u64::try_from(before.as_micros()).unwrap_or_default());
    let mut done = 0;
    for (org, deployment) in found {
        let (logs, text) = (app.logs.clone(), note(seconds));
        let replaced =
            tokio::task::spawn_blocking(move || logs.replace_older(org, deployment, text.as_bytes(), limit));
        match replaced.await {
            Ok(Ok(Replaced { replaced, kept: 0 })) => {
                tracing::debug!(%deployment, replaced, "old logs were removed");
            }
            // It is retried right now, or its files were copied here since: they have their days from then on.
            Ok(Ok(_)) => continue,
            Ok(Err(error)) => {
                tracing::warn!(%error, %deployment, "old logs could not be removed");
                continue;
            }
            Err(_) => return Err(AppError::bug("removing logs broke")),
        }
        // Last the row: what is cut short before is done again.
        let noted = app.store.transact(Context::system(Some(org)), move |tx| {
            Ok::<_, AppError>(retention::note_logs_removed(tx, deployment, before)?)
        });
        done += usize::from(noted.await?);
    }
    Ok(done)
}

fn note(seconds: i64) -> String {
    let days = seconds / (24 * 60 * 60);
    format!("[berth] this log was removed: logs are kept for {days} days (retention.log_days)\n")
}
