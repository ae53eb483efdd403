//! Deliveries of events to webhooks, and the log of their attempts.

use berth_core::event::Event;
use berth_core::id::{DeliveryId, OrgId, WebhookId};
use berth_core::time::Timestamp;
use berth_core::webhook::{Delivery, DeliveryResult, DeliveryState};

use crate::error::StoreError;
use crate::pagination::{ListPage, PageStart, fetch_bounded_count, fetch_page};
use crate::sql::value::text;
use crate::sql::{TableRow as _, ToParams as _, statements, table, word_columns};
use crate::tx::{StoreRead, Tx};

/// Maximum number of attempts in the log of one delivery.
pub const ATTEMPTS_KEPT_MAX: i64 = 30;
/// Maximum number of deliveries deleted at once.
pub const FORGET_BATCH_MAX: i64 = 500;

table!(Org Delivery in webhook_deliveries {
    key: [id],
    update: [status, tries, attempts, next_try_at, ended_at],
    insert: [webhook: webhook_id, event: event_id, sequence, kind, created_at],
});
table!(Org WebhookAttempt in webhook_attempts of delivery_id {
    key: [number],
    insert: [at, duration_ms, status, error],
});
word_columns!(DeliveryState: DeliveryState::ALL);

statements! {
    Org Read BY_ID => Delivery::TABLE.select("WHERE org_id = $1 AND id = $2 {for_update}");
    Org Read PAYLOAD = "SELECT payload FROM webhook_deliveries WHERE org_id = $1 AND id = $2";
    Org Read LIST => Delivery::TABLE.select("WHERE org_id = $1 AND webhook_id = $2 AND ($3 = '' OR status = $3)
        AND sequence < $4 ORDER BY sequence DESC LIMIT $5 OFFSET $6");
    Org Read COUNT = "SELECT CAST(COUNT(*) AS BIGINT) FROM (SELECT 1 FROM webhook_deliveries
        WHERE org_id = $1 AND webhook_id = $2 AND ($3 = '' OR status = $3) LIMIT $4) AS counted";
    Org Read PENDING = "SELECT CAST(COUNT(*) AS BIGINT) FROM webhook_deliveries
        WHERE org_id = $1 AND webhook_id = $2 AND next_try_at IS NOT NULL";
    Instance Read DUE = "SELECT d.org_id, d.webhook_id FROM webhook_deliveries d
        JOIN webhooks w ON w.org_id = d.org_id AND w.id = d.webhook_id
        WHERE d.next_try_at IS NOT NULL AND d.next_try_at <= $1 AND w.inactive_since IS NULL
        GROUP BY d.org_id, d.webhook_id ORDER BY MIN(d.next_try_at) LIMIT $2";
    Org Read NEXT = "SELECT id FROM webhook_deliveries
        WHERE org_id = $1 AND webhook_id = $2 AND next_try_at IS NOT NULL AND next_try_at <= $3
        ORDER BY next_try_at, sequence LIMIT 1";
    // Idempotent: each event has at most one delivery per webhook.
    Org Upkeep INSERT = "INSERT INTO webhook_deliveries
        (org_id, id, webhook_id, event_id, sequence, kind, payload, status, tries, attempts, next_try_at, created_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, 'pending', CAST(0 AS BIGINT), CAST(0 AS BIGINT), $8, $9)
        ON CONFLICT (org_id, webhook_id, sequence) DO NOTHING";
    // Optimistic locking: the number of attempts must be unchanged, so that the result of another worker is not
    // overwritten.
    Org Upkeep MOVE = "UPDATE webhook_deliveries
        SET status = $4, tries = $5, attempts = $6, next_try_at = $7, ended_at = $8
        WHERE org_id = $1 AND id = $2 AND attempts = $3";
    Org Upkeep LOG => WebhookAttempt::TABLE.insert("ON CONFLICT (org_id, delivery_id, number) DO NOTHING");
    Org Upkeep FORGET_ATTEMPTS = "DELETE FROM webhook_attempts
        WHERE org_id = $1 AND delivery_id = $2 AND number <= $3";
    Org Read ATTEMPTS => WebhookAttempt::TABLE.select("WHERE org_id = $1 AND delivery_id = $2 ORDER BY number LIMIT $3");
    Org Upkeep GIVE_UP = "UPDATE webhook_deliveries SET status = 'failed', next_try_at = NULL, ended_at = $3
        WHERE org_id = $1 AND webhook_id = $2 AND status = 'pending'";
    Org Upkeep HASTEN = "UPDATE webhook_deliveries SET next_try_at = $3
        WHERE org_id = $1 AND webhook_id = $2 AND next_try_at > $3";
    // Deletes finished deliveries that are not among the webhook's newest `$3` deliveries.
    Org Upkeep FORGET_SURPLUS = "DELETE FROM webhook_deliveries WHERE org_id = $1 AND id IN
        (SELECT d.id FROM webhook_deliveries d WHERE d.org_id = $1 AND d.webhook_id = $2 AND d.ended_at IS NOT NULL
          AND d.sequence <= (SELECT k.sequence FROM webhook_deliveries k WHERE k.org_id = $1 AND k.webhook_id = $2
            ORDER BY k.sequence DESC LIMIT 1 OFFSET $3)
          ORDER BY d.sequence LIMIT $4)";
    Instance Upkeep FORGET = "DELETE FROM webhook_deliveries WHERE (org_id, id) IN
        (SELECT org_id, id FROM webhook_deliveries WHERE ended_at < $1 LIMIT $2)";
}

/// A logged attempt to deliver an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookAttempt {
    pub number: i64,
    pub at: Timestamp,
    pub duration_ms: i64,
    /// HTTP status of the response, if there was one.
    pub status: Option<i64>,
    pub error: Option<String>,
}

pub fn by_id(db: &mut impl StoreRead, id: DeliveryId) -> Result<Option<Delivery>, StoreError> {
    db.fetch_optional(&BY_ID, &[text(id)])
}

pub fn load_payload(db: &mut impl StoreRead, id: DeliveryId) -> Result<Option<String>, StoreError> {
    db.fetch_optional(&PAYLOAD, &[text(id)])
}

/// Lists the deliveries of a webhook, newest first.
pub fn list(
    db: &mut impl StoreRead,
    webhook: WebhookId,
    status: Option<&str>,
    from: &PageStart,
    limit: i64,
) -> Result<ListPage<Delivery>, StoreError> {
    let filter = [text(webhook), status.unwrap_or_default().into()];
    let total = fetch_bounded_count(db, &COUNT, &filter)?;
    Ok(fetch_page(db, &LIST, &filter, from.by_number(), limit)?.with_total(total))
}

/// Counts the deliveries that are still to be sent.
pub fn count_pending(db: &mut impl StoreRead, webhook: WebhookId) -> Result<i64, StoreError> {
    db.fetch_count(&PENDING, &[text(webhook)])
}

/// Lists webhooks that have due deliveries. The one with the longest overdue delivery comes first.
pub fn list_due_webhooks(db: &mut impl StoreRead, limit: i64) -> Result<Vec<(OrgId, WebhookId)>, StoreError> {
    let now = db.now();
    db.fetch_all(&DUE, &[now.into(), limit.into()])
}

/// Finds the longest overdue delivery of a webhook.
pub fn find_next_due(db: &mut impl StoreRead, webhook: WebhookId) -> Result<Option<DeliveryId>, StoreError> {
    let now = db.now();
    db.fetch_optional(&NEXT, &[text(webhook), now.into()])
}

/// Inserts a new delivery, which is due immediately.
pub fn insert(tx: &mut Tx<'_>, delivery: &Delivery, payload: &str) -> Result<(), StoreError> {
    let mut params = Vec::new();
    (delivery.id, delivery.webhook, delivery.event, delivery.sequence).to_params(&mut params)?;
    (&delivery.kind, payload, delivery.next_try_at, delivery.created_at).to_params(&mut params)?;
    tx.execute(&INSERT, &params).map(drop)
}

/// Updates a delivery after an attempt. Returns false if the delivery no longer has `attempts` attempts, because
/// another worker has attempted it.
pub fn put(tx: &mut Tx<'_>, delivery: &Delivery, attempts: i64) -> Result<bool, StoreError> {
    let mut params = vec![text(delivery.id), attempts.into()];
    (delivery.status, delivery.tries, delivery.attempts).to_params(&mut params)?;
    (delivery.next_try_at, delivery.ended_at).to_params(&mut params)?;
    Ok(tx.execute(&MOVE, &params)? == 1)
}

/// Adds an attempt to the log. Drops the oldest one if there are more than [`ATTEMPTS_KEPT_MAX`].
pub fn log_attempt(
    tx: &mut Tx<'_>,
    id: DeliveryId,
    number: i64,
    tried: &DeliveryResult,
) -> Result<(), StoreError> {
    let (status, error) = (tried.status.map(i64::from), tried.error.clone());
    let attempt = WebhookAttempt { number, at: tx.now(), duration_ms: tried.duration_ms, status, error };
    let mut params = vec![text(id)];
    attempt.to_params(&mut params)?;
    tx.execute(&LOG, &params)?;
    tx.execute(&FORGET_ATTEMPTS, &[text(id), (number - ATTEMPTS_KEPT_MAX).into()]).map(drop)
}

pub fn list_attempts(db: &mut impl StoreRead, id: DeliveryId) -> Result<Vec<WebhookAttempt>, StoreError> {
    db.fetch_all(&ATTEMPTS, &[text(id), ATTEMPTS_KEPT_MAX.into()])
}

/// Marks the pending deliveries of a webhook as failed.
pub fn fail_pending(tx: &mut Tx<'_>, webhook: WebhookId) -> Result<u64, StoreError> {
    let now = tx.now();
    tx.execute(&GIVE_UP, &[text(webhook), now.into()])
}

/// Makes the pending deliveries of a webhook due now. Called when the receiver responds again.
pub fn make_pending_due(tx: &mut Tx<'_>, webhook: WebhookId) -> Result<u64, StoreError> {
    let now = tx.now();
    tx.execute(&HASTEN, &[text(webhook), now.into()])
}

/// Deletes a batch of deliveries that ended before this time, including their logs. Returns the number of deleted
/// deliveries.
pub fn delete_old(tx: &mut Tx<'_>, before: Timestamp) -> Result<i64, StoreError> {
    let gone = tx.execute(&FORGET, &[before.into(), FORGET_BATCH_MAX.into()])?;
    Ok(i64::try_from(gone).unwrap_or(i64::MAX))
}

/// Deletes a batch of a webhook's finished deliveries that are not among its newest `kept`. Returns the number of
/// deleted deliveries.
pub fn delete_surplus(tx: &mut Tx<'_>, webhook: WebhookId, kept: i64) -> Result<i64, StoreError> {
    let gone = tx.execute(&FORGET_SURPLUS, &[text(webhook), kept.into(), FORGET_BATCH_MAX.into()])?;
    Ok(i64::try_from(gone).unwrap_or(i64::MAX))
}

/// Creates a delivery of an event.
pub fn new_delivery(id: DeliveryId, webhook: WebhookId, event: &Event, now: Timestamp) -> Delivery {
    Delivery {
        id,
        webhook,
        event: event.id,
        sequence: event.sequence,
        kind: event.kind.clone(),
        status: DeliveryState::Pending,
        tries: 0,
        attempts: 0,
        next_try_at: Some(now),
        created_at: now,
        ended_at: None,
    }
}
