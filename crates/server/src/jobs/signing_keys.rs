//! Rotates the keys that sign ID tokens.

use std::sync::Arc;
use std::time::Duration;

use berth_engine::Services;
use berth_engine::id_tokens::rotate_signing_keys;

use crate::error::AppError;
use crate::worker::{BackgroundJob, TurnResult};

const LOOK_EVERY: Duration = Duration::from_secs(10 * 60);

pub(super) struct SigningKeyRotation(pub(super) Arc<Services>);

impl BackgroundJob for SigningKeyRotation {
    const NAME: &'static str = "signing keys";

    async fn turn(&self) -> Result<TurnResult, AppError> {
        rotate(&self.0).await.map(|()| TurnResult::Idle)
    }

    async fn wait(&self) {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Does nothing on a server without a public URL, which issues no tokens.
pub async fn rotate(services: &Arc<Services>) -> Result<(), AppError> {
    if services.config.public_url.is_none() {
        return Ok(());
    }
    let services = services.clone();
    let rotated = tokio::task::spawn_blocking(move || rotate_signing_keys(&services)).await;
    Ok(rotated.map_err(|_| AppError::bug("rotating the signing keys panicked"))??)
}
