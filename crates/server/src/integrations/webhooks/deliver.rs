//! Sends due deliveries and records their outcomes.

use berth_core::event::{EventKind, EventSubject, NewEvent};
use berth_core::id::{OrgId, WebhookId};
use berth_core::webhook::{
    Delivery, DeliveryResult, DeliveryState, FAILURES_BROKEN, Webhook, record_attempt,
};
use berth_store::tables::{delivery, webhook};
use berth_store::{Tx, TxContext};

use super::WebhookNotifier;
use super::{SendSlot, WebhookRequest};
use crate::error::AppError;

/// Maximum number of webhooks with due deliveries that are read per turn. Higher than the number of requests that can
/// be in flight.
const DUE_BATCH_MAX: i64 = 10_000;

/// Starts sending due deliveries as long as slots are free. Each webhook has at most one attempt in flight, so a slow
/// receiver does not delay other webhooks.
pub(super) async fn deliver(notify: &WebhookNotifier) -> Result<(), AppError> {
    let due = notify
        .services
        .store
        .read(None, |db| Ok::<_, AppError>(delivery::list_due_webhooks(db, DUE_BATCH_MAX)?));
    for (org, webhook) in due.await? {
        if let Some(place) = notify.slots.take(org, webhook) {
            tokio::spawn(deliver_in_slot(notify.clone(), org, webhook, place));
        }
    }
    Ok(())
}

async fn deliver_in_slot(notify: WebhookNotifier, org: OrgId, webhook: WebhookId, place: SendSlot) {
    let tried = notify.services.shutdown.run_until_cancelled(send_next(&notify, org, webhook)).await;
    if let Some(Err(error)) = tried {
        tracing::error!(?error, %webhook, "delivery attempt failed; retrying");
        // The delivery is still due, so pause to avoid a busy loop.
        notify.services.shutdown.run_until_cancelled(tokio::time::sleep(super::LOOK_EVERY)).await;
    }
    drop(place);
}

/// Attempts the delivery of this webhook that has been due the longest.
async fn send_next(notify: &WebhookNotifier, org: OrgId, id: WebhookId) -> Result<(), AppError> {
    let vault = notify.services.vault.clone();
    let due = notify.services.store.read(Some(org), move |db| {
        let Some(next) = delivery::find_next_due(db, id)? else { return Ok(None) };
        let found = (webhook::by_id(db, id)?, delivery::by_id(db, next)?, delivery::load_payload(db, next)?);
        let (Some(webhook), Some(found), Some(body)) = found else { return Ok(None) };
        if !webhook.state.is_active() {
            return Ok(None);
        }
        let mut secrets = Vec::new();
        for secret in webhook::list_secrets(db, id)? {
            secrets.push(vault.open_signing(db, org, id, &secret)?);
        }
        let seconds = db.now().as_micros() / 1_000_000;
        Ok::<_, AppError>(Some((
            found,
            WebhookRequest { id: next, url: webhook.url, body, secrets, seconds },
        )))
    });
    let Some((found, letter)) = due.await? else { return Ok(()) };
    let url = letter.url.clone();
    let tried = letter.send(&notify.services.egress).await?.to_attempt();
    notify
        .services
        .store
        .transact(TxContext::system(Some(org)), move |tx| store_attempt(tx, &found, &url, &tried))
        .await
}

/// Records the outcome of an attempt that was sent to `url`. Does nothing if the delivery has changed since it was
/// read.
fn store_attempt(
    tx: &mut Tx<'_>,
    sent: &Delivery,
    url: &str,
    tried: &DeliveryResult,
) -> Result<(), AppError> {
    let (webhook, found) = (webhook::by_id(tx, sent.webhook)?, delivery::by_id(tx, sent.id)?);
    let (Some(webhook), Some(found)) = (webhook, found) else { return Ok(()) };
    if found.status != DeliveryState::Pending || found.attempts != sent.attempts {
        return Ok(());
    }
    let [chance, ..] = tx.entropy()?;
    // The webhook's URL was changed in the meantime. A 410 from the old receiver must not deactivate the webhook.
    let is_elsewhere = webhook.url != url;
    let next = if is_elsewhere && tried.is_gone() {
        record_attempt(&found, &DeliveryResult { status: None, ..tried.clone() }, chance, tx.now())
    } else {
        record_attempt(&found, tried, chance, tx.now())
    };
    if !delivery::put(tx, &next, found.attempts)? {
        return Ok(());
    }
    delivery::log_attempt(tx, next.id, next.attempts, tried)?;
    if is_elsewhere {
        return Ok(());
    }
    let failures = webhook::load_cursor(tx, webhook.id)?.map_or(0, |cursor| cursor.failures);
    if tried.is_success() {
        if failures >= FAILURES_BROKEN {
            delivery::make_pending_due(tx, webhook.id)?;
        }
        if failures > 0 {
            webhook::put_failures(tx, webhook.id, 0)?;
        }
        return Ok(());
    }
    webhook::put_failures(tx, webhook.id, failures + 1)?;
    if tried.is_gone() && webhook.state.is_active() {
        deactivate(tx, &webhook)?;
    }
    Ok(())
}

/// Deactivates a webhook whose receiver responded with 410, and records that in the audit log.
fn deactivate(tx: &mut Tx<'_>, found: &Webhook) -> Result<(), AppError> {
    webhook::put(tx, &found.deactivate_gone(tx.now()))?;
    delivery::fail_pending(tx, found.id)?;
    let subject = EventSubject::new("webhook", found.id, Some(found.name.as_str()));
    let event = NewEvent::new(EventKind::WebhookDeactivated, subject)
        .with("reason", "the receiver responded with 410 Gone");
    Ok(tx.record(event)?)
}
