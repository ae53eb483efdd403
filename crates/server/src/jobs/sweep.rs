//! Deletes expired records.

use std::sync::Arc;
use std::time::Duration;

use berth_store::TxContext;
use berth_store::idempotency::{self, FORGET_BATCH_MAX};
use berth_store::tables::{
    action_link, chat_message, cli_login, commit_status, delivery, forge_account, forge_app_setup,
    forge_deployment, hook_delivery, invitation, notification, password_reset, provider_login, second_factor,
    sign_in, slack_connection, token, webhook,
};

use super::BackgroundJobs;
use crate::error::AppError;
use crate::limits::{
    COMMIT_STATUS_DAYS_KEPT, DELIVERIES_KEPT_MAX, DELIVERY_DAYS_KEPT, HOOK_DELIVERY_DAYS_KEPT,
    NOTIFICATION_DAYS_KEPT, SECOND_FACTOR_ENROLMENT_S, SLACK_REQUEST_KEPT_S,
};
use crate::worker::{BackgroundJob, TurnResult};

/// Number of webhooks read per page.
const WEBHOOKS_PAGE: i64 = 200;

const SWEEP_EVERY: Duration = Duration::from_secs(60);

pub(super) struct SweepJob(pub(super) Arc<BackgroundJobs>);

impl BackgroundJob for SweepJob {
    const NAME: &'static str = "sweep";

    async fn turn(&self) -> Result<TurnResult, AppError> {
        sweep(&self.0).await.map(|()| TurnResult::Idle)
    }

    async fn wait(&self) {
        tokio::time::sleep(SWEEP_EVERY).await;
    }
}

/// Deletes expired stored responses, browser sessions and links, deletes old deliveries, and evicts the rate-limit
/// counters of idle callers.
pub async fn sweep(jobs: &BackgroundJobs) -> Result<(), AppError> {
    jobs.rates.evict_idle();
    jobs.services
        .store
        .transact(TxContext::system(None), |tx| {
            invitation::delete_expired(tx)?;
            password_reset::delete_expired(tx)?;
            let oldest = tx.now().plus_seconds(-SECOND_FACTOR_ENROLMENT_S);
            second_factor::delete_unconfirmed(tx, oldest)?;
            action_link::delete_expired(tx)?;
            cli_login::delete_expired(tx)?;
            forge_account::delete_expired_codes(tx)?;
            forge_app_setup::delete_expired(tx)?;
            provider_login::delete_expired_states(tx)?;
            token::delete_expired_of_sessions(tx)?;
            let unchanged_since = tx.now().plus_seconds(-COMMIT_STATUS_DAYS_KEPT * 24 * 60 * 60);
            commit_status::delete_old(tx, unchanged_since)?;
            forge_deployment::delete_old(tx, unchanged_since)?;
            Ok::<_, AppError>(sign_in::delete_expired(tx)?)
        })
        .await?;
    // Delete in batches, so that other transactions can write in between.
    let forget = || {
        jobs.services.store.transact(TxContext::system(None), |tx| {
            Ok::<_, AppError>(idempotency::delete_expired(tx, tx.now())?)
        })
    };
    while forget().await? == FORGET_BATCH_MAX && !jobs.services.shutdown.is_cancelled() {}
    sweep_slack_requests(jobs).await?;
    sweep_notifications(jobs).await?;
    sweep_deliveries(jobs).await?;
    sweep_hook_deliveries(jobs).await
}

/// Deletes old requests of Slack.
async fn sweep_slack_requests(jobs: &BackgroundJobs) -> Result<(), AppError> {
    let delete = || {
        jobs.services.store.transact(TxContext::system(None), |tx| {
            let before = tx.now().plus_seconds(-SLACK_REQUEST_KEPT_S);
            Ok::<_, AppError>(slack_connection::delete_old_requests(tx, before)?)
        })
    };
    while delete().await? == slack_connection::DELETE_BATCH_MAX && !jobs.services.shutdown.is_cancelled() {}
    Ok(())
}

/// Deletes old deliveries of forges.
async fn sweep_hook_deliveries(jobs: &BackgroundJobs) -> Result<(), AppError> {
    let delete = || {
        jobs.services.store.transact(TxContext::system(None), |tx| {
            let before = tx.now().plus_seconds(-HOOK_DELIVERY_DAYS_KEPT * 24 * 60 * 60);
            Ok::<_, AppError>(hook_delivery::delete_before(tx, before)?)
        })
    };
    while delete().await? == hook_delivery::DELETE_BATCH_MAX && !jobs.services.shutdown.is_cancelled() {}
    Ok(())
}

/// Deletes old notifications and messages to chats.
async fn sweep_notifications(jobs: &BackgroundJobs) -> Result<(), AppError> {
    let delete = || {
        jobs.services.store.transact(TxContext::system(None), |tx| {
            let before = tx.now().plus_seconds(-NOTIFICATION_DAYS_KEPT * 24 * 60 * 60);
            Ok::<_, AppError>(notification::delete_old(tx, before)?)
        })
    };
    while delete().await? == notification::DELETE_BATCH_MAX && !jobs.services.shutdown.is_cancelled() {}
    let delete = || {
        jobs.services.store.transact(TxContext::system(None), |tx| {
            let before = tx.now().plus_seconds(-NOTIFICATION_DAYS_KEPT * 24 * 60 * 60);
            Ok::<_, AppError>(chat_message::delete_old(tx, before)?)
        })
    };
    while delete().await? == chat_message::DELETE_BATCH_MAX && !jobs.services.shutdown.is_cancelled() {}
    Ok(())
}

/// Deletes old deliveries, and the oldest deliveries of webhooks that have too many.
async fn sweep_deliveries(jobs: &BackgroundJobs) -> Result<(), AppError> {
    let forget = || {
        jobs.services.store.transact(TxContext::system(None), |tx| {
            let before = tx.now().plus_seconds(-DELIVERY_DAYS_KEPT * 24 * 60 * 60);
            Ok::<_, AppError>(delivery::delete_old(tx, before)?)
        })
    };
    while forget().await? == delivery::FORGET_BATCH_MAX && !jobs.services.shutdown.is_cancelled() {}
    let mut after = String::new();
    loop {
        let from = after.clone();
        let found = jobs
            .services
            .store
            .read(None, move |db| Ok::<_, AppError>(webhook::list_everywhere(db, &from, WEBHOOKS_PAGE)?));
        let found = found.await?;
        for (org, webhook) in &found {
            let webhook = *webhook;
            let forget = || {
                jobs.services.store.transact(TxContext::system(Some(*org)), move |tx| {
                    Ok::<_, AppError>(delivery::delete_surplus(tx, webhook, DELIVERIES_KEPT_MAX)?)
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
