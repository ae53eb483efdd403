//! Seals the logs of finished attempts: compresses them into their final form.

use std::sync::Arc;
use std::time::Duration;

use berth_engine::Services;
use berth_store::tables::attempt;

use crate::error::AppError;
use crate::worker::{BackgroundJob, TurnResult};

/// Debounce: logs that end within this time are sealed together.
const SEAL_PAUSE: Duration = Duration::from_millis(5);

pub(super) struct SealLogs(pub(super) Arc<Services>);

impl BackgroundJob for SealLogs {
    const NAME: &'static str = "seal logs";

    /// Seals logs of attempts that ended before the server last stopped.
    async fn resume(&self) -> Result<(), AppError> {
        seal_leftovers(&self.0).await
    }

    async fn turn(&self) -> Result<TurnResult, AppError> {
        let logs = self.0.logs.clone();
        let sealed = tokio::task::spawn_blocking(move || logs.seal_ended()).await;
        sealed.map(|_| TurnResult::Idle).map_err(|_| AppError::bug("sealing logs panicked"))
    }

    async fn wait(&self) {
        self.0.logs.wait_for_ended().await;
        tokio::time::sleep(SEAL_PAUSE).await;
    }
}

async fn seal_leftovers(services: &Services) -> Result<(), AppError> {
    let logs = services.logs.clone();
    let found = tokio::task::spawn_blocking(move || logs.list_unsealed()).await;
    let found = found.map_err(|_| AppError::bug("looking for logs broke"))?;
    for key in found.map_err(|error| AppError::bug(error.to_string()))? {
        let read = services.store.read(Some(key.org), move |db| {
            Ok::<_, AppError>(attempt::find_state(db, key.deployment, key.step, Some(key.attempt))?)
        });
        if read.await?.is_some_and(|attempt| attempt.has_ended) {
            services.logs.seal_later(&key);
        }
    }
    Ok(())
}
