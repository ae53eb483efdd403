//! Events that are old go, from the oldest on, and what is left is still a chain.
//!
//! Before the first of them goes an event of its own says how far this will go. Whoever checks a history that does not
//! begin with its first event looks for it: a cut that was never announced is not retention.

use berth_core::event::{EventKind, NewEvent, Subject};
use berth_core::time::Timestamp;

use crate::chain::{Head, Sealed, Verifier};
use crate::error::StoreError;
use crate::event_terms;
use crate::query::events;
use crate::sql::statements;
use crate::tx::{Read, Tx};
use crate::value::Value;

/// Events that go in one transaction.
const REMOVED_BATCH_MAX: i64 = 500;
/// Events that go in one pass; the rest goes in the next one.
pub const REMOVED_PASS_MAX: usize = 100_000;

statements! {
    Org Read RECORDED_AT = "SELECT occurred_at FROM events WHERE org_id = $1 AND sequence = $2";
    Org Read FIRST_YOUNG = "SELECT sequence FROM events
        WHERE org_id = $1 AND sequence > $2 AND sequence <= $3 AND occurred_at > $4 ORDER BY sequence LIMIT 1";
    // One that is switched off begins anew when it is switched on again.
    Org Read SLOWEST = "SELECT c.sequence FROM webhook_cursors c
        JOIN webhooks w ON w.org_id = c.org_id AND w.id = c.webhook_id
        WHERE c.org_id = $1 AND w.inactive_since IS NULL ORDER BY c.sequence LIMIT 1";
    Org Upkeep REMOVE = "DELETE FROM events WHERE org_id = $1 AND sequence > $2 AND sequence <= $3";
    Org Upkeep MOVE_START = "UPDATE event_heads SET kept_after = $3, kept_hash = $4
        WHERE org_id = $1 AND kept_after = $2";
}

/// The history says that events up to this one go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Announced {
    through: i64,
}

/// The last event of those that may go now. `None`: the oldest was not recorded before `overdue`, or nothing may go yet.
///
/// Only what was recorded before `before` goes, and only what every webhook has read; never the newest.
pub fn due(db: &mut impl Read, before: Timestamp, overdue: Timestamp) -> Result<Option<i64>, StoreError> {
    let start = events::kept_after(db)?.sequence;
    let oldest = db.row(&RECORDED_AT, &[(start + 1).into()])?.map(|row| row.time(0)).transpose()?;
    if oldest.is_none_or(|oldest| oldest > overdue) {
        return Ok(None);
    }
    let head = events::head(db)?;
    let read = db.row(&SLOWEST, &[])?.map_or(Ok(i64::MAX), |row| row.int(0))?;
    let end = (start + REMOVED_PASS_MAX as i64).min(head.sequence - 1).min(read);
    let young = db.row(&FIRST_YOUNG, &[start.into(), end.into(), before.into()])?;
    let through = young.map_or(Ok(end), |row| row.int(0).map(|young| young - 1))?;
    Ok((through > start).then_some(through))
}

/// Says in the history that events up to this one go, because they are kept for so many days.
pub fn announce(tx: &mut Tx<'_>, through: i64, days: i64) -> Result<Announced, StoreError> {
    let start = events::kept_after(tx)?.sequence;
    let last = events::after(tx, through - 1, through, 1)?.pop();
    let last = last.ok_or_else(|| StoreError::Bug(format!("there is no event {through} to remove")))?;
    let event = NewEvent::new(EventKind::EventsRemoved, Subject::new("organization", last.org, None));
    let event = event.with("from", start + 1).with("through", through);
    tx.record(event.with("hash", last.hash).with("days", days))?;
    Ok(Announced { through })
}

/// One batch of them; says how many went. What is not a chain any more stays: it is evidence.
pub fn remove(tx: &mut Tx<'_>, announced: Announced) -> Result<usize, StoreError> {
    let start = events::kept_after(tx)?;
    let old = events::after(tx, start.sequence, announced.through, REMOVED_BATCH_MAX)?;
    let mut check = Verifier::new(None);
    check.skip_to(start.clone());
    for event in &old {
        check.event(&Sealed::of(event)?);
    }
    if let Some(problem) = check.problem() {
        let (at, why) = (problem.sequence, &problem.detail);
        return Err(StoreError::Bug(format!(
            "the history is wrong at event {at}, nothing is removed: {why}"
        )));
    }
    let Some(last) = old.last() else { return Ok(0) };
    let end = Head { sequence: last.sequence, hash: last.hash.clone() };
    event_terms::remove(tx, &old, end.sequence)?;
    let (from, to) = (Value::from(start.sequence), Value::from(end.sequence));
    tx.execute(&REMOVE, &[from.clone(), to])?;
    tx.execute_one(&MOVE_START, &[from, end.sequence.into(), end.hash.into()])?;
    Ok(old.len())
}
