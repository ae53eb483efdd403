//! Webhooks, their signing secrets, and their positions in the audit log.

use berth_core::id::{OrgId, WebhookId};
use berth_core::name::Slug;
use berth_core::time::Timestamp;
use berth_core::webhook::{EventKindFilter, PayloadFormat, SECRETS_PER_WEBHOOK_MAX, Webhook, WebhookState};

use super::event;
use crate::error::StoreError;
use crate::sql::value::{SqlValue, text};
use crate::sql::{
    FromRow, RowReader, TableRow as _, ToParams, from_row, json_columns, statements, table, word_columns,
};
use crate::tables::secret::SealedValue;
use crate::tx::{StoreRead, Tx};

table!(Org Webhook in webhooks {
    key: [id],
    update: [name, url, kinds, format, state: (inactive_since, inactive_why), version, updated_at],
    insert: [created_at],
});
json_columns!(EventKindFilter);
word_columns!(PayloadFormat: PayloadFormat::ALL);

statements! {
    Org Read BY_ID => Webhook::TABLE.select("WHERE org_id = $1 AND id = $2 {for_update}");
    Org Read BY_NAME => Webhook::TABLE.select("WHERE org_id = $1 AND name = $2 {for_update}");
    Org Read ALL => Webhook::TABLE.select("WHERE org_id = $1 ORDER BY id LIMIT $2");
    Org Write PUT => Webhook::TABLE.upsert("WHERE webhooks.version = excluded.version - 1");
    Org Write DELETE = "DELETE FROM webhooks WHERE org_id = $1 AND id = $2";
    Instance Read EVERYWHERE = "SELECT org_id, id FROM webhooks WHERE id > $1 ORDER BY id LIMIT $2";
    Instance Read BEHIND = "SELECT w.org_id, w.id, c.sequence, h.sequence FROM webhooks w
        JOIN webhook_cursors c ON c.org_id = w.org_id AND c.webhook_id = w.id
        JOIN event_heads h ON h.org_id = w.org_id
        WHERE w.inactive_since IS NULL AND c.sequence < h.sequence AND (w.org_id, w.id) > ($1, $2)
        ORDER BY w.org_id, w.id LIMIT $3";
    Org Read CURSOR = "SELECT sequence, dropped, failures FROM webhook_cursors WHERE org_id = $1 AND webhook_id = $2";
    Org Upkeep BEGIN = "INSERT INTO webhook_cursors (org_id, webhook_id, sequence, dropped, failures)
        VALUES ($1, $2, $3, CAST(0 AS BIGINT), CAST(0 AS BIGINT))
        ON CONFLICT (org_id, webhook_id) DO UPDATE SET sequence = excluded.sequence, failures = CAST(0 AS BIGINT)";
    // Compare-and-swap: fails if another worker has moved the cursor, so that events are not delivered twice.
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

/// A webhook's position in the audit log, and its error counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WebhookCursor {
    pub sequence: i64,
    pub dropped: i64,
    pub failures: i64,
}
from_row!(WebhookCursor { sequence, dropped, failures });

/// An encrypted signing secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SigningSecret {
    pub version: i64,
    pub sealed: SealedValue,
    /// When a secret that was replaced becomes invalid. `None` for the current secret.
    pub valid_until: Option<Timestamp>,
}
from_row!(SigningSecret { version, sealed, valid_until });

/// A webhook that has not yet read all events of its organization.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaggingWebhook {
    pub org: OrgId,
    pub webhook: WebhookId,
    pub sequence: i64,
    /// Sequence number of the organization's newest event.
    pub head: i64,
}
from_row!(LaggingWebhook { org, webhook, sequence, head });

impl FromRow for WebhookState {
    fn from_row(row: &mut RowReader) -> Result<Self, StoreError> {
        let (since, why): (Option<_>, _) = row.take()?;
        Ok(since.map_or(WebhookState::Active, |since| WebhookState::Inactive { since, why }))
    }
}

impl ToParams for WebhookState {
    fn to_params(&self, params: &mut Vec<SqlValue>) -> Result<(), StoreError> {
        match self {
            WebhookState::Active => (None::<Timestamp>, None::<String>).to_params(params),
            WebhookState::Inactive { since, why } => (since, why).to_params(params),
        }
    }
}

pub fn by_id(db: &mut impl StoreRead, id: WebhookId) -> Result<Option<Webhook>, StoreError> {
    db.fetch_optional(&BY_ID, &[text(id)])
}

pub fn by_name(db: &mut impl StoreRead, name: &Slug) -> Result<Option<Webhook>, StoreError> {
    db.fetch_optional(&BY_NAME, &[text(name)])
}

/// Finds a webhook by the id or name from a URL.
pub fn find(db: &mut impl StoreRead, key: &str) -> Result<Option<Webhook>, StoreError> {
    if let Ok(id) = key.parse() {
        return by_id(db, id);
    }
    Slug::parse(key).map_or(Ok(None), |name| by_name(db, &name))
}

/// The organization's webhooks, oldest first.
pub fn list(db: &mut impl StoreRead, limit: i64) -> Result<Vec<Webhook>, StoreError> {
    db.fetch_all(&ALL, &[limit.into()])
}

/// Webhooks of all organizations, starting after this id.
pub fn list_everywhere(
    db: &mut impl StoreRead,
    after: &str,
    limit: i64,
) -> Result<Vec<(OrgId, WebhookId)>, StoreError> {
    db.fetch_all(&EVERYWHERE, &[after.into(), limit.into()])
}

/// Active webhooks that have events to read, ordered by organization and id. `after` is the last webhook of the
/// previous page.
pub fn list_lagging(
    db: &mut impl StoreRead,
    after: Option<LaggingWebhook>,
    limit: i64,
) -> Result<Vec<LaggingWebhook>, StoreError> {
    let (org, webhook) = after.map(|it| (it.org.to_string(), it.webhook.to_string())).unwrap_or_default();
    db.fetch_all(&BEHIND, &[org.into(), webhook.into(), limit.into()])
}

pub fn put(tx: &mut Tx<'_>, webhook: &Webhook) -> Result<(), StoreError> {
    tx.put(&PUT, webhook)
}

/// Deletes a webhook, its secrets, its deliveries and their logs.
pub fn delete(tx: &mut Tx<'_>, id: WebhookId) -> Result<(), StoreError> {
    tx.execute_one(&DELETE, &[text(id)])
}

/// Moves the cursor to the end of the audit log, so that no event from before the activation is sent.
pub fn move_cursor_to_end(tx: &mut Tx<'_>, id: WebhookId) -> Result<(), StoreError> {
    let last = event::last_sequence(tx)?;
    let last = last.ok_or_else(|| StoreError::Bug("the event log has no readable end".into()))?;
    tx.execute_one(&BEGIN, &[text(id), last.into()])
}

pub fn load_cursor(db: &mut impl StoreRead, id: WebhookId) -> Result<Option<WebhookCursor>, StoreError> {
    db.fetch_optional(&CURSOR, &[text(id)])
}

/// Advances the cursor. Returns false if it is no longer at `from`.
pub fn move_cursor(
    tx: &mut Tx<'_>,
    id: WebhookId,
    from: i64,
    to: i64,
    dropped: i64,
) -> Result<bool, StoreError> {
    Ok(tx.execute(&MOVE, &[text(id), from.into(), to.into(), dropped.into()])? == 1)
}

/// Stores the number of consecutive failures.
pub fn put_failures(tx: &mut Tx<'_>, id: WebhookId, failures: i64) -> Result<(), StoreError> {
    tx.execute(&COUNT_FAILURES, &[text(id), failures.into()]).map(drop)
}

/// Stores a new signing secret. Earlier secrets stay valid until `old_until`. At most [`SECRETS_PER_WEBHOOK_MAX`]
/// secrets are valid at a time.
pub fn put_secret(
    tx: &mut Tx<'_>,
    id: WebhookId,
    version: i64,
    value: &SealedValue,
    old_until: Timestamp,
) -> Result<(), StoreError> {
    let now = tx.now();
    tx.execute(&END_SECRETS, &[text(id), old_until.into()])?;
    tx.execute(&FORGET_SECRETS, &[text(id), (version - SECRETS_PER_WEBHOOK_MAX).into(), now.into()])?;
    tx.put(&PUT_SECRET, &(id, version, value.clone(), now))
}

/// Valid signing secrets, the current one first.
pub fn list_secrets(db: &mut impl StoreRead, id: WebhookId) -> Result<Vec<SigningSecret>, StoreError> {
    let now = db.now();
    db.fetch_all(&SECRETS, &[text(id), now.into(), SECRETS_PER_WEBHOOK_MAX.into()])
}
