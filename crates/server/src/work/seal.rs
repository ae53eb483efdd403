//! Seal: logs of attempts that have ended take their final form.

use std::sync::Arc;
use std::time::Duration;

use berth_store::query::attempts;

use crate::app::App;
use crate::error::AppError;

/// Between two looks: what ends meanwhile is sealed in one go.
const SEAL_PAUSE: Duration = Duration::from_millis(5);

/// Runs until the server stops. What is not sealed then is at the next start.
pub(super) async fn seals(app: Arc<App>) {
    if let Err(error) = seal_left(&app).await {
        tracing::warn!(
            ?error,
            "logs that an earlier process left could not be sealed; the next start tries again"
        );
    }
    while app.shutdown.run_until_cancelled(app.logs.has_ended()).await.is_some() {
        let logs = app.logs.clone();
        if tokio::task::spawn_blocking(move || logs.seal_ended()).await.is_err() {
            tracing::error!("sealing logs broke");
        }
        app.shutdown.run_until_cancelled(tokio::time::sleep(SEAL_PAUSE)).await;
    }
}

/// Logs whose attempts ended, but whose server did before they were sealed.
async fn seal_left(app: &App) -> Result<(), AppError> {
    let logs = app.logs.clone();
    let found = tokio::task::spawn_blocking(move || logs.unsealed()).await;
    let found = found.map_err(|_| AppError::bug("looking for logs broke"))?;
    for key in found.map_err(|error| AppError::bug(error.to_string()))? {
        let read = app.store.read(Some(key.org), move |db| {
            Ok::<_, AppError>(attempts::attempt(db, key.deployment, key.step, Some(key.attempt))?)
        });
        if read.await?.is_some_and(|attempt| attempt.has_ended) {
            app.logs.seal_later(&key);
        }
    }
    Ok(())
}
