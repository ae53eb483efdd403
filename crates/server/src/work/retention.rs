//! Retention: logs of deployments that ended long ago go, a few at a time.
//!
//! What has not ended keeps its logs, however old it is. In the place of each log a line stays that says what became of it.

use std::sync::Arc;
use std::time::Duration;

use berth_store::Context;
use berth_store::records::retention;

use crate::app::App;
use crate::error::AppError;

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

/// One batch; says how many deployments were in it.
pub async fn retain(app: &Arc<App>) -> Result<usize, AppError> {
    let Some(kept) = app.config.logs_kept else { return Ok(0) };
    let seconds = i64::try_from(kept.as_secs()).unwrap_or(i64::MAX);
    let looked = app.store.read(None, move |db| {
        let before = db.now().plus_seconds(-seconds);
        Ok::<_, AppError>((before, retention::old_logs(db, before, BATCH_MAX)?))
    });
    let (before, found) = looked.await?;
    for (org, deployment) in &found {
        let (org, deployment) = (*org, *deployment);
        // First the row: whoever retries from here on writes new logs, and those are younger.
        let noted = app.store.transact(Context::system(Some(org)), move |tx| {
            Ok::<_, AppError>(retention::note_logs_removed(tx, deployment, before)?)
        });
        if !noted.await? {
            continue;
        }
        let (logs, text) = (app.logs.clone(), note(seconds));
        let removed =
            tokio::task::spawn_blocking(move || logs.replace_all(org, deployment, text.as_bytes())).await;
        match removed {
            Ok(Ok(count)) => tracing::debug!(%deployment, count, "old logs were removed"),
            Ok(Err(error)) => tracing::warn!(%error, %deployment, "old logs could not be removed"),
            Err(_) => return Err(AppError::bug("removing logs broke")),
        }
    }
    Ok(found.len())
}

fn note(seconds: i64) -> String {
    let days = seconds / (24 * 60 * 60);
    format!("[berth] this log was removed: logs are kept for {days} days (retention.log_days)\n")
}
