//! Deliveries of forges to a repository's webhook, and what each did.

use berth_core::id::RepositoryId;
use berth_core::time::Timestamp;

use crate::error::StoreError;
use crate::sql::value::text;
use crate::sql::{from_row, statements};
use crate::tx::{StoreRead, Tx};

statements! {
    // Needs no event: it is a record of its own, and what it causes is recorded.
    Org Upkeep INSERT = "INSERT INTO hook_deliveries (org_id, repository_id, delivery_id, kind, outcome, received_at)
        VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (org_id, repository_id, delivery_id) DO NOTHING";
    Org Upkeep SET_OUTCOME = "UPDATE hook_deliveries SET outcome = $4
        WHERE org_id = $1 AND repository_id = $2 AND delivery_id = $3";
    Org Read LIST = "SELECT delivery_id, kind, outcome, received_at FROM hook_deliveries
        WHERE org_id = $1 AND repository_id = $2 AND (received_at, delivery_id) < ($3, $4)
        ORDER BY received_at DESC, delivery_id DESC LIMIT $5";
    Instance Upkeep DELETE_OLD = "DELETE FROM hook_deliveries WHERE received_at < $1";
}

/// A delivery whose signature was valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookDelivery {
    /// The forge's id of the delivery.
    pub id: String,
    /// As the forge names it: `push`, `pull_request.opened`.
    pub kind: String,
    /// What it did, for people.
    pub outcome: String,
    pub received_at: Timestamp,
}
from_row!(HookDelivery { id, kind, outcome, received_at });

/// Stores a delivery. Returns `false` if it was stored before, in which case it must not act again.
pub fn insert(
    tx: &mut Tx<'_>,
    repository: RepositoryId,
    delivery: &HookDelivery,
) -> Result<bool, StoreError> {
    let HookDelivery { id, kind, outcome, received_at } = delivery;
    let params = [
        text(repository),
        id.as_str().into(),
        kind.as_str().into(),
        outcome.as_str().into(),
        (*received_at).into(),
    ];
    Ok(tx.execute(&INSERT, &params)? == 1)
}

/// Says what a delivery did.
pub fn set_outcome(
    tx: &mut Tx<'_>,
    repository: RepositoryId,
    id: &str,
    outcome: &str,
) -> Result<(), StoreError> {
    tx.execute_one(&SET_OUTCOME, &[text(repository), id.into(), outcome.into()])
}

/// The deliveries before a time and id, newest first.
pub fn list_before(
    db: &mut impl StoreRead,
    repository: RepositoryId,
    before: (Timestamp, &str),
    limit: i64,
) -> Result<Vec<HookDelivery>, StoreError> {
    db.fetch_all(&LIST, &[text(repository), before.0.into(), before.1.into(), limit.into()])
}

/// Deletes deliveries of all organizations that arrived before this time.
pub fn delete_before(tx: &mut Tx<'_>, time: Timestamp) -> Result<u64, StoreError> {
    tx.execute(&DELETE_OLD, &[time.into()])
}
