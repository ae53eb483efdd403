//! Deliveries: events on their way to webhooks, and the log of every try.

use berth_core::event::Event;
use berth_core::id::{DeliveryId, WebhookId};
use berth_core::time::Timestamp;
use berth_core::webhook::{Delivery, DeliveryStatus, Tried};

use crate::error::StoreError;
use crate::sql::statements;
use crate::tx::{Read, Tx};
use crate::value::{Row, text};

/// Tries of one delivery that are kept and shown.
pub const ATTEMPTS_KEPT_MAX: i64 = 30;
/// Deliveries one step of the sweep takes.
pub const FORGET_BATCH_MAX: i64 = 500;

statements! {
    Org Read BY_ID = "SELECT id, webhook_id, event_id, sequence, kind, status, tries, attempts, next_try_at, created_at,
          ended_at FROM webhook_deliveries WHERE org_id = $1 AND id = $2 {for_update}";
    Org Read PAYLOAD = "SELECT payload FROM webhook_deliveries WHERE org_id = $1 AND id = $2";
    // Made once: an event that is there already is not made again.
    Org Upkeep INSERT = "INSERT INTO webhook_deliveries
        (org_id, id, webhook_id, event_id, sequence, kind, payload, status, tries, attempts, next_try_at, created_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, 'pending', CAST(0 AS BIGINT), CAST(0 AS BIGINT), $8, $9)
        ON CONFLICT (org_id, webhook_id, sequence) DO NOTHING";
    // Compared with what was read: a try that somebody else wrote down meanwhile is not written over.
    Org Upkeep MOVE = "UPDATE webhook_deliveries
        SET status = $4, tries = $5, attempts = $6, next_try_at = $7, ended_at = $8
        WHERE org_id = $1 AND id = $2 AND attempts = $3";
    Org Upkeep LOG = "INSERT INTO webhook_attempts (org_id, delivery_id, number, at, duration_ms, status, error)
        VALUES ($1, $2, $3, $4, $5, $6, $7)
        ON CONFLICT (org_id, delivery_id, number) DO NOTHING";
    Org Upkeep FORGET_ATTEMPTS = "DELETE FROM webhook_attempts
        WHERE org_id = $1 AND delivery_id = $2 AND number <= $3";
    Org Read ATTEMPTS = "SELECT number, at, duration_ms, status, error FROM webhook_attempts
        WHERE org_id = $1 AND delivery_id = $2 ORDER BY number LIMIT $3";
    Org Upkeep GIVE_UP = "UPDATE webhook_deliveries SET status = 'failed', next_try_at = NULL, ended_at = $3
        WHERE org_id = $1 AND webhook_id = $2 AND status = 'pending'";
    Org Upkeep HASTEN = "UPDATE webhook_deliveries SET next_try_at = $3
        WHERE org_id = $1 AND webhook_id = $2 AND next_try_at > $3";
    // All but the newest ones, of those that have ended.
    Org Upkeep FORGET_SURPLUS = "DELETE FROM webhook_deliveries WHERE org_id = $1 AND id IN
        (SELECT d.id FROM webhook_deliveries d WHERE d.org_id = $1 AND d.webhook_id = $2 AND d.ended_at IS NOT NULL
          AND d.sequence <= (SELECT k.sequence FROM webhook_deliveries k WHERE k.org_id = $1 AND k.webhook_id = $2
            ORDER BY k.sequence DESC LIMIT 1 OFFSET $3)
          ORDER BY d.sequence LIMIT $4)";
    Instance Upkeep FORGET = "DELETE FROM webhook_deliveries WHERE (org_id, id) IN
        (SELECT org_id, id FROM webhook_deliveries WHERE ended_at < $1 LIMIT $2)";
}

/// A try, as the log keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    pub number: i64,
    pub at: Timestamp,
    pub duration_ms: i64,
    pub status: Option<i64>,
    pub error: Option<String>,
}

pub(crate) fn read(row: &Row) -> Result<Delivery, StoreError> {
    Ok(Delivery {
        id: row.parse(0)?,
        webhook: row.parse(1)?,
        event: row.parse(2)?,
        sequence: row.int(3)?,
        kind: row.text(4)?.to_owned(),
        status: row.parse(5)?,
        tries: row.int(6)?,
        attempts: row.int(7)?,
        next_try_at: row.maybe(8, Row::time)?,
        created_at: row.time(9)?,
        ended_at: row.maybe(10, Row::time)?,
    })
}

pub fn by_id(db: &mut impl Read, id: DeliveryId) -> Result<Option<Delivery>, StoreError> {
    db.row(&BY_ID, &[text(id)])?.as_ref().map(read).transpose()
}

pub fn payload(db: &mut impl Read, id: DeliveryId) -> Result<Option<String>, StoreError> {
    db.row(&PAYLOAD, &[text(id)])?.map(|row| row.text(0).map(str::to_owned)).transpose()
}

/// A new one, due at once.
pub fn insert(tx: &mut Tx<'_>, delivery: &Delivery, payload: &str) -> Result<(), StoreError> {
    let params = [
        text(delivery.id),
        text(delivery.webhook),
        text(delivery.event),
        delivery.sequence.into(),
        delivery.kind.as_str().into(),
        payload.into(),
        delivery.next_try_at.into(),
        delivery.created_at.into(),
    ];
    tx.execute(&INSERT, &params).map(drop)
}

/// Writes what became of one that had been tried `attempts` times. False: it was tried again meanwhile.
pub fn put(tx: &mut Tx<'_>, delivery: &Delivery, attempts: i64) -> Result<bool, StoreError> {
    let params = [
        text(delivery.id),
        attempts.into(),
        text(delivery.status),
        delivery.tries.into(),
        delivery.attempts.into(),
        delivery.next_try_at.into(),
        delivery.ended_at.into(),
    ];
    Ok(tx.execute(&MOVE, &params)? == 1)
}

pub fn log(tx: &mut Tx<'_>, id: DeliveryId, number: i64, tried: &Tried) -> Result<(), StoreError> {
    let params = [
        text(id),
        number.into(),
        tx.now().into(),
        tried.duration_ms.into(),
        tried.status.map(i64::from).into(),
        tried.error.as_deref().into(),
    ];
    tx.execute(&LOG, &params)?;
    tx.execute(&FORGET_ATTEMPTS, &[text(id), (number - ATTEMPTS_KEPT_MAX).into()]).map(drop)
}

pub fn attempts(db: &mut impl Read, id: DeliveryId) -> Result<Vec<Attempt>, StoreError> {
    let rows = db.rows(&ATTEMPTS, &[text(id), ATTEMPTS_KEPT_MAX.into()])?;
    rows.iter()
        .map(|row| {
            Ok(Attempt {
                number: row.int(0)?,
                at: row.time(1)?,
                duration_ms: row.int(2)?,
                status: row.maybe(3, Row::int)?,
                error: row.maybe(4, Row::text)?.map(str::to_owned),
            })
        })
        .collect()
}

/// Whatever still waits for this webhook waits no more.
pub fn give_up(tx: &mut Tx<'_>, webhook: WebhookId) -> Result<u64, StoreError> {
    let now = tx.now();
    tx.execute(&GIVE_UP, &[text(webhook), now.into()])
}

/// The receiver is back: what waits for it is tried now.
pub fn hasten(tx: &mut Tx<'_>, webhook: WebhookId) -> Result<u64, StoreError> {
    let now = tx.now();
    tx.execute(&HASTEN, &[text(webhook), now.into()])
}

/// Forgets some of those that ended before this time, with their log.
pub fn forget(tx: &mut Tx<'_>, before: Timestamp) -> Result<i64, StoreError> {
    let gone = tx.execute(&FORGET, &[before.into(), FORGET_BATCH_MAX.into()])?;
    Ok(i64::try_from(gone).unwrap_or(i64::MAX))
}

/// Forgets some of what a webhook has beyond its newest `kept`.
pub fn forget_surplus(tx: &mut Tx<'_>, webhook: WebhookId, kept: i64) -> Result<i64, StoreError> {
    let gone = tx.execute(&FORGET_SURPLUS, &[text(webhook), kept.into(), FORGET_BATCH_MAX.into()])?;
    Ok(i64::try_from(gone).unwrap_or(i64::MAX))
}

/// A delivery as it begins.
pub fn fresh(id: DeliveryId, webhook: WebhookId, event: &Event, now: Timestamp) -> Delivery {
    Delivery {
        id,
        webhook,
        event: event.id,
        sequence: event.sequence,
        kind: event.kind.clone(),
        status: DeliveryStatus::Pending,
        tries: 0,
        attempts: 0,
        next_try_at: Some(now),
        created_at: now,
        ended_at: None,
    }
}
