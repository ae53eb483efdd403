//! Data about the installation itself: its epoch and its incarnation. Also postpones deadlines when the clock is set.

use berth_core::environment::fence::{EPOCH_MAX, EpochEvidence, EvidenceVerdict, judge_evidence, next_epoch};

use crate::error::StoreError;
use crate::sql::{SqlConn, statements};
use crate::tx::{StoreRead, Tx};

statements! {
    Instance Upkeep SET_INCARNATION = "UPDATE instance SET incarnation = $1 WHERE id = 'berth'";
    Instance Upkeep RAISE_EPOCH = "UPDATE instance SET epoch = $1 WHERE id = 'berth' AND epoch < $1 AND $1 <= $2";
    Instance Read STORAGE_ID = "SELECT storage_id FROM instance WHERE id = 'berth' AND storage_id IS NOT NULL";
    Instance Upkeep SET_STORAGE_ID = "UPDATE instance SET storage_id = $1 WHERE id = 'berth' AND storage_id IS NULL";
    Instance Read EPOCH = "SELECT epoch FROM instance WHERE id = 'berth'";
    Instance Upkeep PUT_OFF_SESSIONS = "UPDATE sessions SET expires_at = expires_at + $1, active_at = active_at + $1,
          warned_of = warned_of + $1 WHERE ended_at IS NULL";
    Instance Upkeep PUT_OFF_TICKETS = "UPDATE tickets SET expires_at = expires_at + $1,
          takeover_at = takeover_at + $1 WHERE status = 'waiting'";
    // Increments the version of every claimed environment, even if `due_at` is NULL: decisions that were based on the
    // old times of its session are outdated.
    Instance Upkeep PUT_OFF_ENVIRONMENTS = "UPDATE environments SET due_at = due_at + $1, version = version + 1
        WHERE due_at IS NOT NULL OR holder_id IS NOT NULL";
}

fn no_instance() -> StoreError {
    StoreError::Bug("the instance has no row".into())
}

/// Reads the epoch on a connection outside of a transaction.
pub(crate) fn read_epoch(conn: &mut dyn SqlConn) -> Result<i64, StoreError> {
    conn.query(&EPOCH, &[])?.into_iter().next().ok_or_else(no_instance)?.read()
}

/// The epoch, which forms the upper bits of every fence.
pub fn load_epoch(db: &mut impl StoreRead) -> Result<i64, StoreError> {
    db.fetch_optional(&EPOCH, &[])?.ok_or_else(no_instance)
}

/// Raises the epoch, so that new fences are greater than all that may have been issued. `given` is an epoch from
/// another source; the new epoch is higher.
pub(crate) fn raise_epoch(tx: &mut Tx<'_>, given: Option<i64>) -> Result<(), StoreError> {
    let before = tx.fetch_count(&EPOCH, &[])?;
    let epoch = next_epoch(before, given, tx.now());
    set_epoch(tx, epoch)
}

/// Handles an epoch or a fence that a runner has seen. If it shows that the database has lost commits, the epoch is
/// raised. All later transactions, on every server, then issue fences of the new epoch. Must run in a transaction that
/// locks the whole installation.
pub fn process_witness(tx: &mut Tx<'_>, witness: EpochEvidence) -> Result<EvidenceVerdict, StoreError> {
    let own = tx.fetch_count(&EPOCH, &[])?;
    let heard = judge_evidence(own, witness, tx.now());
    if let EvidenceVerdict::Above(next) = heard {
        set_epoch(tx, next)?;
    }
    Ok(heard)
}

fn set_epoch(tx: &mut Tx<'_>, epoch: i64) -> Result<(), StoreError> {
    match tx.execute(&RAISE_EPOCH, &[epoch.into(), EPOCH_MAX.into()])? {
        1 => {
            tx.set_epoch(epoch);
            Ok(())
        }
        _ => Err(StoreError::Unavailable(format!(
            "the epoch would exceed {EPOCH_MAX}, the highest that fits a fence"
        ))),
    }
}

/// The id of the object storage that has the logs and artifacts. `None` if they are in the data directory.
pub fn find_storage_id(db: &mut impl StoreRead) -> Result<Option<String>, StoreError> {
    db.fetch_optional(&STORAGE_ID, &[])
}

/// Sets the id of the object storage, unless there is one. Returns the id that is set now.
pub fn claim_storage_id(tx: &mut Tx<'_>, id: &str) -> Result<String, StoreError> {
    tx.execute(&SET_STORAGE_ID, &[id.into()])?;
    find_storage_id(tx)?.ok_or_else(no_instance)
}

/// Stores the incarnation, which changes each time a server starts on the data directory.
pub(crate) fn set_incarnation(tx: &mut Tx<'_>, mark: &str) -> Result<(), StoreError> {
    tx.execute_one(&SET_INCARNATION, &[mark.into()])
}

/// Postpones all deadlines by as much as the clock was set forward, so that no session or ticket loses time.
pub(crate) fn postpone_deadlines(conn: &mut dyn SqlConn, micros: i64) -> Result<(), StoreError> {
    for statement in [&PUT_OFF_SESSIONS, &PUT_OFF_TICKETS, &PUT_OFF_ENVIRONMENTS] {
        conn.execute(statement, &[&micros.into()])?;
    }
    Ok(())
}
