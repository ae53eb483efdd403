//! Lists of webhooks and deliveries; who is behind, and what is due.

use berth_core::id::{DeliveryId, OrgId, WebhookId};
use berth_core::webhook::{Delivery, Webhook};

use super::{COUNTED_MAX, From, Slice, counted};
use crate::error::StoreError;
use crate::records::{delivery, webhook};
use crate::sql::statements;
use crate::tx::Read;
use crate::value::{Row, text};

statements! {
    Org Read ALL = "SELECT id, name, url, kinds, format, inactive_since, inactive_why, version, created_at, updated_at
        FROM webhooks WHERE org_id = $1 ORDER BY id LIMIT $2";
    Instance Read EVERYWHERE = "SELECT org_id, id FROM webhooks WHERE id > $1 ORDER BY id LIMIT $2";
    Org Read DELIVERIES = "SELECT id, webhook_id, event_id, sequence, kind, status, tries, attempts, next_try_at,
          created_at, ended_at FROM webhook_deliveries
        WHERE org_id = $1 AND webhook_id = $2 AND ($3 = '' OR status = $3) AND sequence < $4
        ORDER BY sequence DESC LIMIT $5 OFFSET $6";
    Org Read COUNT = "SELECT CAST(COUNT(*) AS BIGINT) FROM (SELECT 1 FROM webhook_deliveries
        WHERE org_id = $1 AND webhook_id = $2 AND ($3 = '' OR status = $3) LIMIT $4) AS counted";
    Org Read PENDING = "SELECT CAST(COUNT(*) AS BIGINT) FROM webhook_deliveries
        WHERE org_id = $1 AND webhook_id = $2 AND next_try_at IS NOT NULL";
    Instance Read BEHIND = "SELECT w.org_id, w.id, c.sequence, h.sequence FROM webhooks w
        JOIN webhook_cursors c ON c.org_id = w.org_id AND c.webhook_id = w.id
        JOIN event_heads h ON h.org_id = w.org_id
        WHERE w.inactive_since IS NULL AND c.sequence < h.sequence AND (w.org_id, w.id) > ($1, $2)
        ORDER BY w.org_id, w.id LIMIT $3";
    Instance Read DUE = "SELECT d.org_id, d.webhook_id, MIN(d.next_try_at) FROM webhook_deliveries d
        JOIN webhooks w ON w.org_id = d.org_id AND w.id = d.webhook_id
        WHERE d.next_try_at IS NOT NULL AND d.next_try_at <= $1 AND w.inactive_since IS NULL
        GROUP BY d.org_id, d.webhook_id ORDER BY MIN(d.next_try_at) LIMIT $2";
    Org Read NEXT = "SELECT id FROM webhook_deliveries
        WHERE org_id = $1 AND webhook_id = $2 AND next_try_at IS NOT NULL AND next_try_at <= $3
        ORDER BY next_try_at, sequence LIMIT 1";
}

/// A webhook that has not looked at everything yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Behind {
    pub org: OrgId,
    pub webhook: WebhookId,
    pub sequence: i64,
    /// Of the last event of its organization.
    pub head: i64,
}

/// All of an organization, oldest first.
pub fn all(db: &mut impl Read, limit: i64) -> Result<Vec<Webhook>, StoreError> {
    db.rows(&ALL, &[limit.into()])?.iter().map(webhook::read).collect()
}

/// Of all organizations, after this id.
pub fn everywhere(
    db: &mut impl Read,
    after: &str,
    limit: i64,
) -> Result<Vec<(OrgId, WebhookId)>, StoreError> {
    let rows = db.rows(&EVERYWHERE, &[after.into(), limit.into()])?;
    rows.iter().map(|row| Ok((row.parse(0)?, row.parse(1)?))).collect()
}

/// Newest first. The total is counted up to a bound.
pub fn deliveries(
    db: &mut impl Read,
    webhook: WebhookId,
    status: Option<&str>,
    from: &From,
    limit: i64,
) -> Result<Slice<Delivery>, StoreError> {
    let (before, offset) = match from {
        From::After(sequence) => (sequence.parse().unwrap_or(0), 0),
        From::Offset(offset) => (i64::MAX, *offset),
    };
    let status = status.unwrap_or_default();
    let params = [text(webhook), status.into(), before.into(), (limit + 1).into(), offset.into()];
    let rows = db.rows(&DELIVERIES, &params)?;
    let total = db.row(&COUNT, &[text(webhook), status.into(), (COUNTED_MAX + 1).into()])?;
    let total = total.map(|row| row.int(0)).transpose()?.and_then(counted);
    Ok(Slice::cut(rows.iter().map(delivery::read).collect::<Result<_, _>>()?, limit, total))
}

/// How many wait to be sent.
pub fn pending(db: &mut impl Read, webhook: WebhookId) -> Result<i64, StoreError> {
    db.row(&PENDING, &[text(webhook)])?.map_or(Ok(0), |row| row.int(0))
}

/// By organization, after the last one of the page before.
pub fn behind(db: &mut impl Read, after: Option<Behind>, limit: i64) -> Result<Vec<Behind>, StoreError> {
    let read = |row: &Row| {
        Ok(Behind { org: row.parse(0)?, webhook: row.parse(1)?, sequence: row.int(2)?, head: row.int(3)? })
    };
    let (org, webhook) = after.map(|it| (it.org.to_string(), it.webhook.to_string())).unwrap_or_default();
    db.rows(&BEHIND, &[org.into(), webhook.into(), limit.into()])?.iter().map(read).collect()
}

/// Webhooks for which something is due, the longest overdue first.
pub fn due(db: &mut impl Read, limit: i64) -> Result<Vec<(OrgId, WebhookId)>, StoreError> {
    let now = db.now();
    let rows = db.rows(&DUE, &[now.into(), limit.into()])?;
    rows.iter().map(|row| Ok((row.parse(0)?, row.parse(1)?))).collect()
}

/// The delivery of this webhook that is the longest overdue.
pub fn next(db: &mut impl Read, webhook: WebhookId) -> Result<Option<DeliveryId>, StoreError> {
    let now = db.now();
    db.row(&NEXT, &[text(webhook), now.into()])?.map(|row| row.parse(0)).transpose()
}
