//! Retention of the audit log: removes the oldest events. The remaining ones still form a valid hash chain.
//!
//! Before each removal, an event that announces it is recorded. If a log does not start with the first event,
//! verification requires such an announcement. So any other removal of events is detected.

use berth_core::event::{EventKind, EventSubject, NewEvent};
use berth_core::time::Timestamp;

use super::event;
use crate::audit::terms;
use crate::audit::{AuditHead, ChainVerifier, SealedEvent};
use crate::error::StoreError;
use crate::sql::statements;
use crate::sql::value::SqlValue;
use crate::tx::{StoreRead, Tx};

/// Maximum number of events removed by one transaction.
const REMOVED_BATCH_MAX: i64 = 500;
/// Maximum number of events removed by one pass.
pub const REMOVED_PASS_MAX: usize = 100_000;

statements! {
    Org Read RECORDED_AT = "SELECT occurred_at FROM events WHERE org_id = $1 AND sequence = $2";
    Org Read FIRST_YOUNG = "SELECT sequence FROM events
        WHERE org_id = $1 AND sequence > $2 AND sequence <= $3 AND occurred_at > $4 ORDER BY sequence LIMIT 1";
    // Inactive webhooks are ignored: when they are activated, they continue at the end of the log.
    Org Read SLOWEST = "SELECT c.sequence FROM webhook_cursors c
        JOIN webhooks w ON w.org_id = c.org_id AND w.id = c.webhook_id
        WHERE c.org_id = $1 AND w.inactive_since IS NULL ORDER BY c.sequence LIMIT 1";
    Org Upkeep REMOVE = "DELETE FROM events WHERE org_id = $1 AND sequence > $2 AND sequence <= $3";
    Org Upkeep MOVE_START = "UPDATE event_heads SET kept_after = $3, kept_hash = $4
        WHERE org_id = $1 AND kept_after = $2";
}

/// Proof that an event announces the removal of all events up to `through`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnnouncedRemoval {
    through: i64,
}

/// Finds the number of the last event to remove now. Returns `None` if the oldest event is newer than `overdue`, or if
/// no event may be removed yet.
///
/// An event may be removed if it is older than `before` and every active webhook has read it. The newest event is never
/// removed.
pub fn find_due(
    db: &mut impl StoreRead,
    before: Timestamp,
    overdue: Timestamp,
) -> Result<Option<i64>, StoreError> {
    let start = event::retained_after(db)?.sequence;
    let oldest: Option<Timestamp> = db.fetch_optional(&RECORDED_AT, &[(start + 1).into()])?;
    if oldest.is_none_or(|oldest| oldest > overdue) {
        return Ok(None);
    }
    let head = event::chain_head(db)?;
    let read = db.fetch_optional(&SLOWEST, &[])?.unwrap_or(i64::MAX);
    let end = (start + REMOVED_PASS_MAX as i64).min(head.sequence - 1).min(read);
    let young: Option<i64> = db.fetch_optional(&FIRST_YOUNG, &[start.into(), end.into(), before.into()])?;
    let through = young.map_or(end, |young| young - 1);
    Ok((through > start).then_some(through))
}

/// Records the event that announces the removal of all events up to `through`, which are older than `days` days.
pub fn announce_removal(tx: &mut Tx<'_>, through: i64, days: i64) -> Result<AnnouncedRemoval, StoreError> {
    let start = event::retained_after(tx)?.sequence;
    let last = event::list_after(tx, through - 1, through, 1)?.pop();
    let last = last.ok_or_else(|| StoreError::Bug(format!("there is no event {through} to remove")))?;
    let event = NewEvent::new(EventKind::EventsRemoved, EventSubject::new("organization", last.org, None));
    let event = event.with("from", start + 1).with("through", through);
    tx.record(event.with("hash", last.hash).with("days", days))?;
    Ok(AnnouncedRemoval { through })
}

/// Removes one batch and returns its size. If an event fails verification, nothing is removed, because the events are
/// evidence of tampering.
pub fn remove_batch(tx: &mut Tx<'_>, announced: AnnouncedRemoval) -> Result<usize, StoreError> {
    let start = event::retained_after(tx)?;
    let old = event::list_after(tx, start.sequence, announced.through, REMOVED_BATCH_MAX)?;
    let mut check = ChainVerifier::new(None);
    check.skip_to(start.clone());
    for event in &old {
        check.verify_event(&SealedEvent::from_event(event)?);
    }
    if let Some(problem) = check.problem() {
        let (at, why) = (problem.sequence, &problem.detail);
        return Err(StoreError::Bug(format!(
            "the audit log fails verification at event {at}, nothing is removed: {why}"
        )));
    }
    let Some(last) = old.last() else { return Ok(0) };
    let end = AuditHead { sequence: last.sequence, hash: last.hash.clone() };
    terms::remove(tx, &old, end.sequence)?;
    let (from, to) = (SqlValue::from(start.sequence), SqlValue::from(end.sequence));
    tx.execute(&REMOVE, &[from.clone(), to])?;
    tx.execute_one(&MOVE_START, &[from, end.sequence.into(), end.hash.into()])?;
    Ok(old.len())
}
