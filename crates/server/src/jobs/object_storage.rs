//! Upkeep of object storage: puts growing logs there, seals logs whose server was lost, and removes objects that
//! interrupted operations left behind.

use std::sync::Arc;
use std::time::Duration;

use berth_engine::Services;
use berth_engine::logs::{LogError, LogKey, LogStream};
use berth_store::tables::log_object::{self, AbandonedLog};

use crate::error::AppError;
use crate::worker::{BackgroundJob, TurnResult};

/// Other servers see output about this much later. Output that was not put yet is lost together with this machine.
const PUT_EVERY: Duration = Duration::from_secs(1);
const SEAL_EVERY: Duration = Duration::from_secs(60);
const SWEEP_EVERY: Duration = Duration::from_secs(24 * 60 * 60);
/// Time after the end of an attempt after which its log is sealed, if the server that should have done so has not.
const ABANDONED_S: i64 = 2 * 60;
/// Time after which a log is sealed even if a part of it is missing.
const LOST_S: i64 = 60 * 60;
/// Number of logs sealed per pass.
const SEALED_PASS_MAX: i64 = 100;
/// Objects younger than this are not removed, because their row may not be written yet.
const ORPHAN_S: i64 = 24 * 60 * 60;
/// Maximum number of objects removed per pass.
const ORPHANS_PASS_MAX: usize = 10_000;

/// Puts growing logs into object storage.
pub(super) struct PutLogs(pub(super) Arc<Services>);

impl BackgroundJob for PutLogs {
    const NAME: &'static str = "put logs into object storage";

    /// Queues logs that an earlier process has not put completely.
    async fn resume(&self) -> Result<(), AppError> {
        let Some(objects) = self.0.objects.clone() else { return Ok(()) };
        let logs = self.0.logs.clone();
        run_blocking(move || {
            objects.clean_cache()?;
            logs.list_unsealed()?.iter().for_each(|key| logs.put_later(key));
            Ok::<_, LogError>(())
        })
        .await?
        .map_err(|error| AppError::bug(error.to_string()))
    }

    async fn turn(&self) -> Result<TurnResult, AppError> {
        put(&self.0).await?;
        Ok(TurnResult::Idle)
    }

    async fn wait(&self) {
        wait(&self.0, PUT_EVERY).await;
    }
}

pub(super) async fn put(services: &Services) -> Result<(), AppError> {
    let logs = services.logs.clone();
    run_blocking(move || logs.put_appended()).await
}

/// Seals the logs of ended attempts that no server has sealed.
pub(super) struct SealAbandonedLogs(pub(super) Arc<Services>);

impl BackgroundJob for SealAbandonedLogs {
    const NAME: &'static str = "seal abandoned logs";

    async fn turn(&self) -> Result<TurnResult, AppError> {
        if self.0.objects.is_none() {
            return Ok(TurnResult::Idle);
        }
        let read = self.0.store.read(None, |db| {
            let now = db.now();
            let found = log_object::list_abandoned(db, now.plus_seconds(-ABANDONED_S), SEALED_PASS_MAX)?;
            Ok::<_, AppError>((found, now.plus_seconds(-LOST_S)))
        });
        let (found, lost) = read.await?;
        let logs = self.0.logs.clone();
        run_blocking(move || {
            for AbandonedLog { org, log, ended_at } in found {
                let stream = if log.is_after_fence { LogStream::AfterFence } else { LogStream::Step };
                let (deployment, step, attempt) = (log.deployment, log.step, log.attempt);
                let key = LogKey { org, deployment, step, attempt, stream };
                if let Err(error) = logs.seal_abandoned(&key, ended_at < lost) {
                    tracing::warn!(%error, %deployment, %step, "sealing an abandoned log failed; retrying");
                }
            }
        })
        .await?;
        Ok(TurnResult::Idle)
    }

    async fn wait(&self) {
        wait(&self.0, SEAL_EVERY).await;
    }
}

/// Removes objects that no row refers to.
pub(super) struct RemoveOrphans(pub(super) Arc<Services>);

impl BackgroundJob for RemoveOrphans {
    const NAME: &'static str = "remove orphaned objects";

    async fn turn(&self) -> Result<TurnResult, AppError> {
        remove_orphans(&self.0, ORPHAN_S).await?;
        Ok(TurnResult::Idle)
    }

    async fn wait(&self) {
        wait(&self.0, SWEEP_EVERY).await;
    }
}

/// Removes orphaned objects that are older than this many seconds.
pub(super) async fn remove_orphans(services: &Services, age_s: i64) -> Result<usize, AppError> {
    let Some(objects) = services.objects.clone() else { return Ok(0) };
    let now = services.store.read(None, |db| Ok::<_, AppError>(db.now())).await?;
    let removed =
        run_blocking(move || objects.remove_orphans(now.plus_seconds(-age_s), ORPHANS_PASS_MAX)).await?;
    let removed = removed.map_err(|error| AppError::bug(error.to_string()))?;
    if removed > 0 {
        tracing::info!(removed, "removed orphaned objects");
    }
    Ok(removed)
}

async fn wait(services: &Services, length: Duration) {
    match services.objects {
        Some(_) => tokio::time::sleep(length).await,
        None => std::future::pending().await,
    }
}

async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, AppError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| AppError::bug("upkeep of object storage panicked"))
}
