//! Deletes expired records.

use std::sync::Arc;
use std::time::Duration;

use berth_store::Context;
use berth_store::idempotency::{self, FORGET_BATCH_MAX};
use berth_store::tables::{delivery, invitation, password_reset, sign_in, webhook};

use super::Jobs;
use crate::error::AppError;
use crate::limits::{DELIVERIES_KEPT_MAX, DELIVERY_DAYS_KEPT};
use crate::worker::{Job, Turn};

/// Webhooks per page.
const WEBHOOKS_PAGE: i64 = 200;

const SWEEP_EVERY: Duration = Duration::from_secs(60);

pub(super) struct Sweep(pub(super) Arc<Jobs>);

impl Job for Sweep {
    const NAME: &'static str = "sweep";

    async fn turn(&self) -> Result<Turn, AppError> {
        sweep(&self.0).await.map(|()| Turn::Idle)
    }

    async fn wait(&self) {
        tokio::time::sleep(SWEEP_EVERY).await;
    }
}

/// Deletes old stored responses, ended browser sessions, expired links and old deliveries, and evicts idle callers.
pub async fn sweep(jobs: &Jobs) -> Result<(), AppError> {
    jobs.rates.forget_quiet();
    jobs.services
        .store
        .transact(Context::system(None), |tx| {
            invitation::delete_expired(tx)?;
            password_reset::delete_expired(tx)?;
            Ok::<_, AppError>(sign_in::forget_old(tx)?)
        })
        .await?;
    // In batches, so that writers can proceed in between.
    let forget = || {
        jobs.services
            .store
            .transact(Context::system(None), |tx| Ok::<_, AppError>(idempotency::forget(tx, tx.now())?))
    };
    while forget().await? == FORGET_BATCH_MAX && !jobs.services.shutdown.is_cancelled() {}
    deliveries(jobs).await
}

/// Limits the delivery log by age and by number per webhook.
async fn deliveries(jobs: &Jobs) -> Result<(), AppError> {
    let forget = || {
        jobs.services.store.transact(Context::system(None), |tx| {
            let before = tx.now().plus_seconds(-DELIVERY_DAYS_KEPT * 24 * 60 * 60);
            Ok::<_, AppError>(delivery::forget(tx, before)?)
        })
    };
    while forget().await? == delivery::FORGET_BATCH_MAX && !jobs.services.shutdown.is_cancelled() {}
    let mut after = String::new();
    loop {
        let from = after.clone();
        let found = jobs
            .services
            .store
            .read(None, move |db| Ok::<_, AppError>(webhook::everywhere(db, &from, WEBHOOKS_PAGE)?));
        let found = found.await?;
        for (org, webhook) in &found {
            let webhook = *webhook;
            let forget = || {
                jobs.services.store.transact(Context::system(Some(*org)), move |tx| {
                    Ok::<_, AppError>(delivery::forget_surplus(tx, webhook, DELIVERIES_KEPT_MAX)?)
                })
            };
            while forget().await? == delivery::FORGET_BATCH_MAX && !jobs.services.shutdown.is_cancelled() {}
        }
        match found.last() {
            Some((_, last)) if !jobs.services.shutdown.is_cancelled() => after = last.to_string(),
            _ => return Ok(()),
        }
    }
}
