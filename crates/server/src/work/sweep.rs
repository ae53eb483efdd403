//! Sweep: what nobody needs any more goes.

use berth_store::Context;
use berth_store::idempotency::{self, FORGET_BATCH_MAX};
use berth_store::records::{delivery, sign_in};

use crate::app::App;
use crate::error::AppError;
use crate::limits::DELIVERY_DAYS_KEPT;

/// Removes what nobody needs any more: old stored answers, ended sign-ins, ended deliveries, quiet callers.
pub async fn sweep(app: &App) -> Result<(), AppError> {
    app.rates.forget_quiet();
    app.store.transact(Context::system(None), |tx| Ok::<_, AppError>(sign_in::forget_old(tx)?)).await?;
    // Batch by batch, so that writers get their turn in between.
    let forget = || {
        app.store.transact(Context::system(None), |tx| Ok::<_, AppError>(idempotency::forget(tx, tx.now())?))
    };
    while forget().await? == FORGET_BATCH_MAX && !app.shutdown.is_cancelled() {}
    let forget = || {
        app.store.transact(Context::system(None), |tx| {
            let before = tx.now().plus_seconds(-DELIVERY_DAYS_KEPT * 24 * 60 * 60);
            Ok::<_, AppError>(delivery::forget(tx, before)?)
        })
    };
    while forget().await? == delivery::FORGET_BATCH_MAX && !app.shutdown.is_cancelled() {}
    Ok(())
}
