//! Deliveries of forges to a repository's webhook, and what each did.

use std::fmt;
use std::str::FromStr;

use berth_core::id::RepositoryId;
use berth_core::time::Timestamp;

use crate::error::StoreError;
use crate::pagination::{ListPage, PageStart, fetch_bounded_count};
use crate::sql::value::text;
use crate::sql::{from_row, statements};
use crate::tx::{StoreRead, Tx};

/// Maximum number of deliveries deleted in one transaction.
pub const DELETE_BATCH_MAX: i64 = 500;

statements! {
    // Needs no event: it is a record of its own, and what it causes is recorded.
    Org Upkeep INSERT = "INSERT INTO hook_deliveries (org_id, repository_id, delivery_id, kind, outcome, received_at)
        VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (org_id, repository_id, delivery_id) DO NOTHING";
    Org Upkeep SET_OUTCOME = "UPDATE hook_deliveries SET outcome = $4
        WHERE org_id = $1 AND repository_id = $2 AND delivery_id = $3";
    Org Read LIST = "SELECT delivery_id, kind, outcome, received_at FROM hook_deliveries
        WHERE org_id = $1 AND repository_id = $2 AND (received_at, delivery_id) < ($3, $4)
        ORDER BY received_at DESC, delivery_id DESC LIMIT $5 OFFSET $6";
    Org Read COUNT = "SELECT CAST(COUNT(*) AS BIGINT) FROM (SELECT 1 FROM hook_deliveries
        WHERE org_id = $1 AND repository_id = $2 LIMIT $3) AS counted";
    Instance Upkeep DELETE_OLD = "DELETE FROM hook_deliveries WHERE (org_id, repository_id, delivery_id) IN (
          SELECT org_id, repository_id, delivery_id FROM hook_deliveries WHERE received_at < $1
          ORDER BY received_at LIMIT $2)";
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

/// The position of a delivery in the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookDeliveryKey {
    pub received_at: Timestamp,
    pub id: String,
}

impl fmt::Display for HookDeliveryKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.received_at.as_micros(), self.id)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be a time and the id of a delivery")]
pub struct InvalidHookDeliveryKey;

impl FromStr for HookDeliveryKey {
    type Err = InvalidHookDeliveryKey;

    fn from_str(text: &str) -> Result<Self, InvalidHookDeliveryKey> {
        let (micros, id) = text.split_once(':').ok_or(InvalidHookDeliveryKey)?;
        let micros = micros.parse().map_err(|_| InvalidHookDeliveryKey)?;
        if id.contains('\0') {
            return Err(InvalidHookDeliveryKey);
        }
        Ok(Self { received_at: Timestamp::from_micros(micros), id: id.to_owned() })
    }
}

/// The deliveries of a repository, newest first. A page starts after a [`HookDeliveryKey`].
pub fn list(
    db: &mut impl StoreRead,
    repository: RepositoryId,
    from: &PageStart,
    limit: i64,
) -> Result<ListPage<HookDelivery>, StoreError> {
    let total = fetch_bounded_count(db, &COUNT, &[text(repository)])?;
    let (micros, id, offset) = match from {
        PageStart::Offset(offset) => (i64::MAX, String::new(), *offset),
        PageStart::After(key) => {
            let key: HookDeliveryKey =
                key.parse().map_err(|_| StoreError::Bug("a cursor was not checked".to_owned()))?;
            (key.received_at.as_micros(), key.id, 0)
        }
    };
    let params = [text(repository), micros.into(), id.as_str().into(), (limit + 1).into(), offset.into()];
    Ok(ListPage::from_rows(db.fetch_all(&LIST, &params)?, limit, total))
}

/// Deletes a batch of deliveries of all organizations that arrived before this time. Returns their number.
pub fn delete_before(tx: &mut Tx<'_>, time: Timestamp) -> Result<i64, StoreError> {
    let deleted = tx.execute(&DELETE_OLD, &[time.into(), DELETE_BATCH_MAX.into()])?;
    Ok(i64::try_from(deleted).unwrap_or(i64::MAX))
}
