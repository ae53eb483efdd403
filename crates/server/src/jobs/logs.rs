//! Makes logs durable, and reads new output from logs that other servers write.

use std::sync::Arc;
use std::time::Duration;

use crate::error::AppError;
use berth_engine::Services;

use crate::limits::LOG_FLUSH_EVERY;
use crate::worker::{BackgroundJob, TurnResult};

const FOLLOW_EVERY: Duration = Duration::from_millis(250);
/// With object storage, each followed log costs a query.
const FOLLOW_OBJECTS_EVERY: Duration = Duration::from_secs(1);

/// Fsyncs appended log data.
pub(super) struct FlushLogs(pub(super) Arc<Services>);

impl BackgroundJob for FlushLogs {
    const NAME: &'static str = "flush logs";

    async fn turn(&self) -> Result<TurnResult, AppError> {
        flush(&self.0).await;
        Ok(TurnResult::Idle)
    }

    async fn wait(&self) {
        tokio::time::sleep(LOG_FLUSH_EVERY).await;
    }
}

pub(super) async fn flush(services: &Services) {
    let logs = services.logs.clone();
    if tokio::task::spawn_blocking(move || logs.flush_all()).await.is_err() {
        tracing::error!("flushing logs panicked");
    }
}

/// Reads new output from logs that clients follow on this server while another server writes them.
pub(super) struct FollowLogs(pub(super) Arc<Services>);

impl BackgroundJob for FollowLogs {
    const NAME: &'static str = "follow logs of other servers";

    async fn turn(&self) -> Result<TurnResult, AppError> {
        let logs = self.0.logs.clone();
        tokio::task::spawn_blocking(move || logs.catch_up_all())
            .await
            .map_err(|_| AppError::bug("following logs of other servers panicked"))?;
        Ok(TurnResult::Idle)
    }

    async fn wait(&self) {
        if !self.0.store.is_shared() {
            return std::future::pending().await;
        }
        tokio::time::sleep(if self.0.objects.is_some() { FOLLOW_OBJECTS_EVERY } else { FOLLOW_EVERY }).await;
    }
}
