//! Background work: reconcilers that take no input, do what is due, and are safe to run twice.

use std::sync::Arc;
use std::time::Duration;

use berth_store::Context;
use berth_store::idempotency::{self, FORGET_BATCH_MAX};
use berth_store::records::sign_in;

use crate::app::App;
use crate::error::AppError;

const SWEEP_EVERY: Duration = Duration::from_secs(60);

/// Runs until the server stops.
pub async fn run(app: Arc<App>) {
    let mut tick = tokio::time::interval(SWEEP_EVERY);
    while app.shutdown.run_until_cancelled(tick.tick()).await.is_some() {
        if let Err(error) = sweep(&app).await {
            tracing::warn!(?error, "sweep failed; it is tried again in a minute");
        }
    }
}

/// Removes what nobody needs any more: old stored answers, ended sign-ins, quiet callers.
pub async fn sweep(app: &App) -> Result<(), AppError> {
    app.rates.forget_quiet();
    app.store.transact(Context::system(None), |tx| Ok::<_, AppError>(sign_in::forget_old(tx)?)).await?;
    // Batch by batch, so that writers get their turn in between.
    let forget = || {
        app.store.transact(Context::system(None), |tx| Ok::<_, AppError>(idempotency::forget(tx, tx.now())?))
    };
    while forget().await? == FORGET_BATCH_MAX && !app.shutdown.is_cancelled() {}
    Ok(())
}
