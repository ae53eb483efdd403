//! Renew: a sign of life for every attempt of this process, all in one transaction.

use std::sync::Arc;

use berth_store::Context;
use berth_store::records::deployment;

use super::attempt::Attempt;
use crate::app::App;
use crate::error::AppError;

pub(super) async fn renew(app: &App) -> Result<(), AppError> {
    let attempts: Vec<Arc<Attempt>> = app.runner.attempts().values().cloned().collect();
    if attempts.is_empty() {
        return Ok(());
    }
    let renewed = app.store.transact(Context::system(None), move |tx| {
        let mut over = Vec::new();
        for attempt in attempts {
            let renew = |tx: &mut _| deployment::renew(tx, attempt.deployment, &attempt.nonce);
            if !tx.within(attempt.org, renew)? {
                over.push(attempt);
            }
        }
        Ok::<_, AppError>(over)
    });
    // Whoever else ended an attempt has called it lost. Nothing it does counts any more.
    for attempt in renewed.await? {
        attempt.stop.cancel();
    }
    Ok(())
}
