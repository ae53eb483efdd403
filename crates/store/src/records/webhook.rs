//! Webhooks, their signing secrets, and up to where they have read.

use berth_core::id::WebhookId;
use berth_core::name::Slug;
use berth_core::time::Timestamp;
use berth_core::webhook::{SECRETS_PER_WEBHOOK_MAX, State, Webhook};

use crate::error::StoreError;
use crate::query::events;
use crate::records::secret::Sealed;
use crate::sql::statements;
use crate::tx::{Read, Tx};
use crate::value::{Row, text, to_json};

statements! {
    Org Read BY_ID = "SELECT id, name, url, kinds, format, inactive_since, inactive_why, version, created_at, updated_at
        FROM webhooks WHERE org_id = $1 AND id = $2 {for_update}";
    Org Read BY_NAME = "SELECT id, name, url, kinds, format, inactive_since, inactive_why, version, created_at, updated_at
        FROM webhooks WHERE org_id = $1 AND name = $2 {for_update}";
    Org Write PUT = "INSERT INTO webhooks
        (org_id, id, name, url, kinds, format, inactive_since, inactive_why, version, created_at, updated_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
        ON CONFLICT (org_id, id) DO UPDATE SET name = excluded.name, url = excluded.url, kinds = excluded.kinds,
          format = excluded.format, inactive_since = excluded.inactive_since, inactive_why = excluded.inactive_why,
          version = excluded.version, updated_at = excluded.updated_at
        WHERE webhooks.version = excluded.version - 1";
    Org Write DELETE = "DELETE FROM webhooks WHERE org_id = $1 AND id = $2";
    Org Read CURSOR = "SELECT sequence, dropped, failures FROM webhook_cursors WHERE org_id = $1 AND webhook_id = $2";
    Org Upkeep BEGIN = "INSERT INTO webhook_cursors (org_id, webhook_id, sequence, dropped, failures)
        VALUES ($1, $2, $3, CAST(0 AS BIGINT), CAST(0 AS BIGINT))
        ON CONFLICT (org_id, webhook_id) DO UPDATE SET sequence = excluded.sequence, failures = CAST(0 AS BIGINT)";
    // Whoever read from another place has lost: what it made of the events is not written.
    Org Upkeep MOVE = "UPDATE webhook_cursors SET sequence = $4, dropped = dropped + $5
        WHERE org_id = $1 AND webhook_id = $2 AND sequence = $3";
    Org Upkeep COUNT_FAILURES = "UPDATE webhook_cursors SET failures = $3 WHERE org_id = $1 AND webhook_id = $2";
    Org Write PUT_SECRET = "INSERT INTO webhook_secrets
        (org_id, webhook_id, version, key_id, sealed, created_at, valid_until)
        VALUES ($1, $2, $3, $4, $5, $6, NULL)";
    Org Write END_SECRETS = "UPDATE webhook_secrets SET valid_until = $3
        WHERE org_id = $1 AND webhook_id = $2 AND valid_until IS NULL";
    Org Write FORGET_SECRETS = "DELETE FROM webhook_secrets
        WHERE org_id = $1 AND webhook_id = $2 AND (version <= $3 OR valid_until <= $4)";
    Org Read SECRETS = "SELECT version, key_id, sealed, valid_until FROM webhook_secrets
        WHERE org_id = $1 AND webhook_id = $2 AND (valid_until IS NULL OR valid_until > $3)
        ORDER BY version DESC LIMIT $4";
}

/// Up to where a webhook has read, and how it fares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    pub sequence: i64,
    pub dropped: i64,
    pub failures: i64,
}

/// An encrypted signing secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SigningSecret {
    pub version: i64,
    pub sealed: Sealed,
    /// `None` for the present one.
    pub valid_until: Option<Timestamp>,
}

pub(crate) fn read(row: &Row) -> Result<Webhook, StoreError> {
    let state = match row.maybe(5, Row::time)? {
        None => State::Active,
        Some(since) => State::Inactive { since, why: row.maybe(6, Row::text)?.map(str::to_owned) },
    };
    Ok(Webhook {
        id: row.parse(0)?,
        name: row.name(1)?,
        url: row.text(2)?.to_owned(),
        kinds: row.json(3)?,
        format: row.parse(4)?,
        state,
        version: row.int(7)?,
        created_at: row.time(8)?,
        updated_at: row.time(9)?,
    })
}

pub fn by_id(db: &mut impl Read, id: WebhookId) -> Result<Option<Webhook>, StoreError> {
    db.row(&BY_ID, &[text(id)])?.as_ref().map(read).transpose()
}

pub fn by_name(db: &mut impl Read, name: &Slug) -> Result<Option<Webhook>, StoreError> {
    db.row(&BY_NAME, &[text(name)])?.as_ref().map(read).transpose()
}

/// By the id or the name in a URL.
pub fn find(db: &mut impl Read, key: &str) -> Result<Option<Webhook>, StoreError> {
    if let Ok(id) = key.parse() {
        return by_id(db, id);
    }
    Slug::parse(key).map_or(Ok(None), |name| by_name(db, &name))
}

pub fn put(tx: &mut Tx<'_>, webhook: &Webhook) -> Result<(), StoreError> {
    let (since, why) = match &webhook.state {
        State::Active => (None, None),
        State::Inactive { since, why } => (Some(*since), why.as_deref()),
    };
    let params = [
        text(webhook.id),
        text(&webhook.name),
        webhook.url.as_str().into(),
        to_json(&webhook.kinds)?.into(),
        text(webhook.format),
        since.into(),
        why.into(),
        webhook.version.into(),
        webhook.created_at.into(),
        webhook.updated_at.into(),
    ];
    tx.execute_one(&PUT, &params)
}

/// With its secrets, its deliveries and their log.
pub fn delete(tx: &mut Tx<'_>, id: WebhookId) -> Result<(), StoreError> {
    tx.execute_one(&DELETE, &[text(id)])
}

/// From here on: what was recorded so far is none of its business.
pub fn begin(tx: &mut Tx<'_>, id: WebhookId) -> Result<(), StoreError> {
    let last = events::last(tx)?.ok_or_else(|| StoreError::Bug("the history has no readable end".into()))?;
    tx.execute_one(&BEGIN, &[text(id), last.into()])
}

pub fn cursor(db: &mut impl Read, id: WebhookId) -> Result<Option<Cursor>, StoreError> {
    let Some(row) = db.row(&CURSOR, &[text(id)])? else { return Ok(None) };
    Ok(Some(Cursor { sequence: row.int(0)?, dropped: row.int(1)?, failures: row.int(2)? }))
}

/// False: it stands elsewhere by now.
pub fn move_cursor(
    tx: &mut Tx<'_>,
    id: WebhookId,
    from: i64,
    to: i64,
    dropped: i64,
) -> Result<bool, StoreError> {
    Ok(tx.execute(&MOVE, &[text(id), from.into(), to.into(), dropped.into()])? == 1)
}

pub fn count_failures(tx: &mut Tx<'_>, id: WebhookId, failures: i64) -> Result<(), StoreError> {
    tx.execute(&COUNT_FAILURES, &[text(id), failures.into()]).map(drop)
}

/// A new signing secret; those before it are good until `old_until`, and no more than a few of them.
pub fn put_secret(
    tx: &mut Tx<'_>,
    id: WebhookId,
    version: i64,
    value: &Sealed,
    old_until: Timestamp,
) -> Result<(), StoreError> {
    let now = tx.now();
    tx.execute(&END_SECRETS, &[text(id), old_until.into()])?;
    tx.execute(&FORGET_SECRETS, &[text(id), (version - SECRETS_PER_WEBHOOK_MAX).into(), now.into()])?;
    let params = [text(id), version.into(), text(value.key), value.bytes.as_slice().into(), now.into()];
    tx.execute_one(&PUT_SECRET, &params)
}

/// Those that are good now, the present one first.
pub fn secrets(db: &mut impl Read, id: WebhookId) -> Result<Vec<SigningSecret>, StoreError> {
    let now = db.now();
    let rows = db.rows(&SECRETS, &[text(id), now.into(), SECRETS_PER_WEBHOOK_MAX.into()])?;
    rows.iter()
        .map(|row| {
            let sealed = Sealed { key: row.parse(1)?, bytes: row.bytes(2)?.to_vec() };
            Ok(SigningSecret { version: row.int(0)?, sealed, valid_until: row.maybe(3, Row::time)? })
        })
        .collect()
}
