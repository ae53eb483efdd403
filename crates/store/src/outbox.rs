//! The outbox: a side effect is stored in the transaction that causes it, and is executed later, at least once.

use berth_core::decision::OutboxEffect;
use berth_core::id::{EffectId, OrgId};
use berth_core::time::Timestamp;

use crate::error::StoreError;
use crate::sql::value::{text, to_json};
use crate::sql::{QueuedWrite, from_row, statements};
use crate::tx::{StoreRead, Tx};

/// Maximum number of due effects fetched at once.
pub const OUTBOX_BATCH_MAX: i64 = 100;

statements! {
    Org Upkeep ENQUEUE = "INSERT INTO outbox (org_id, id, kind, payload, due_at, attempts)
        VALUES ($1, $2, $3, $4, $5, CAST(0 AS BIGINT))";
    Instance Read DUE = "SELECT org_id, id, payload, attempts FROM outbox
        WHERE kind = $1 AND due_at <= $2 ORDER BY due_at LIMIT $3 {skip_locked}";
    Org Upkeep DONE = "DELETE FROM outbox WHERE org_id = $1 AND id = $2";
    Org Upkeep LATER = "UPDATE outbox SET due_at = $3, attempts = attempts + 1 WHERE org_id = $1 AND id = $2";
}

#[derive(Debug, PartialEq)]
pub struct DueEffect {
    pub org: OrgId,
    pub id: EffectId,
    pub payload: serde_json::Value,
    /// Number of earlier attempts to execute the effect.
    pub attempts: i64,
}
from_row!(DueEffect { org, id, payload, attempts });

pub(crate) fn enqueue(tx: &mut Tx<'_>, effect: &OutboxEffect) -> Result<(), StoreError> {
    let id = EffectId::from_parts(tx.now(), tx.entropy()?);
    let params = [text(id), effect.kind.as_str().into(), to_json(&effect.payload)?.into(), tx.now().into()];
    tx.queue(QueuedWrite::new(&ENQUEUE, params.into(), 1))
}

/// Due effects of one kind, oldest first.
pub fn fetch_due(tx: &mut Tx<'_>, kind: &str) -> Result<Vec<DueEffect>, StoreError> {
    tx.fetch_all(&DUE, &[kind.into(), tx.now().into(), OUTBOX_BATCH_MAX.into()])
}

/// Deletes an effect after it was executed.
pub fn delete_effect(tx: &mut Tx<'_>, id: EffectId) -> Result<(), StoreError> {
    tx.execute(&DONE, &[text(id)]).map(drop)
}

/// Schedules the next attempt for this time.
pub fn schedule_retry(tx: &mut Tx<'_>, id: EffectId, due_at: Timestamp) -> Result<(), StoreError> {
    tx.execute(&LATER, &[text(id), due_at.into()]).map(drop)
}
