//! Chat destinations, with the encrypted URLs of their webhooks.

use berth_core::chat::{ChatDestination, ChatDestinationKind};
use berth_core::id::ChatDestinationId;
use berth_core::name::Slug;

use super::secret::SealedValue;
use crate::error::StoreError;
use crate::sql::value::text;
use crate::sql::{TableRow as _, ToParams as _, statements, table, word_columns};
use crate::tx::{StoreRead, Tx};

table!(Org ChatDestination in chat_destinations {
    key: [id],
    insert: [name, kind, channel, failures, error, delivered_at, created_at],
});
word_columns!(ChatDestinationKind: ChatDestinationKind::ALL);

statements! {
    Org Read BY_ID => ChatDestination::TABLE.select("WHERE org_id = $1 AND id = $2 {for_update}");
    Org Read BY_NAME => ChatDestination::TABLE.select("WHERE org_id = $1 AND name = $2 {for_update}");
    Org Read ALL => ChatDestination::TABLE.select("WHERE org_id = $1 ORDER BY id LIMIT $2");
    Org Read URL = "SELECT key_id, sealed FROM chat_destinations WHERE org_id = $1 AND id = $2 AND sealed IS NOT NULL";
    Org Write INSERT => ChatDestination::TABLE.insert("");
    Org Write SET_URL = "UPDATE chat_destinations SET key_id = $3, sealed = $4 WHERE org_id = $1 AND id = $2";
    // The results of attempts, which are not recorded as events.
    Org Upkeep DELIVERED = "UPDATE chat_destinations SET failures = 0, error = NULL, delivered_at = $3
        WHERE org_id = $1 AND id = $2";
    Org Upkeep FAILED = "UPDATE chat_destinations SET failures = failures + 1, error = $3 WHERE org_id = $1 AND id = $2";
    Org Write DELETE = "DELETE FROM chat_destinations WHERE org_id = $1 AND id = $2";
}

pub fn by_id(db: &mut impl StoreRead, id: ChatDestinationId) -> Result<Option<ChatDestination>, StoreError> {
    db.fetch_optional(&BY_ID, &[text(id)])
}

pub fn by_name(db: &mut impl StoreRead, name: &Slug) -> Result<Option<ChatDestination>, StoreError> {
    db.fetch_optional(&BY_NAME, &[text(name)])
}

/// Finds a destination by the id or name from a URL.
pub fn find(db: &mut impl StoreRead, key: &str) -> Result<Option<ChatDestination>, StoreError> {
    if let Ok(id) = key.parse() {
        return by_id(db, id);
    }
    Slug::parse(key).map_or(Ok(None), |name| by_name(db, &name))
}

/// The organization's destinations, oldest first.
pub fn list(db: &mut impl StoreRead, limit: i64) -> Result<Vec<ChatDestination>, StoreError> {
    db.fetch_all(&ALL, &[limit.into()])
}

/// Loads the encrypted URL of a webhook. `None` for other destinations.
pub fn load_url(db: &mut impl StoreRead, id: ChatDestinationId) -> Result<Option<SealedValue>, StoreError> {
    db.fetch_optional(&URL, &[text(id)])
}

pub fn insert(
    tx: &mut Tx<'_>,
    destination: &ChatDestination,
    url: Option<&SealedValue>,
) -> Result<(), StoreError> {
    tx.put(&INSERT, destination)?;
    let Some(url) = url else { return Ok(()) };
    let mut params = vec![text(destination.id)];
    url.to_params(&mut params)?;
    tx.execute_one(&SET_URL, &params)
}

/// Records that messages were delivered.
pub fn record_success(tx: &mut Tx<'_>, id: ChatDestinationId) -> Result<(), StoreError> {
    let now = tx.now();
    tx.execute(&DELIVERED, &[text(id), now.into()]).map(drop)
}

/// Records a failed attempt.
pub fn record_failure(tx: &mut Tx<'_>, id: ChatDestinationId, error: &str) -> Result<(), StoreError> {
    tx.execute(&FAILED, &[text(id), error.into()]).map(drop)
}

/// Deletes a destination with its messages.
pub fn delete(tx: &mut Tx<'_>, id: ChatDestinationId) -> Result<(), StoreError> {
    super::chat_message::delete_of_target(tx, &id.to_string())?;
    tx.execute_one(&DELETE, &[text(id)])
}
