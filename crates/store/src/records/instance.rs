//! What concerns the whole installation: the epoch of its fences, and a clock that was set.

use berth_core::environment::fence::{EPOCH_MAX, Heard, Witness, heard_epoch, raised_epoch};

use crate::error::StoreError;
use crate::sql::{Conn, statements};
use crate::tx::{Read as _, Tx};

statements! {
    Instance Upkeep SET_INCARNATION = "UPDATE instance SET incarnation = $1 WHERE id = 'berth'";
    Instance Upkeep RAISE_EPOCH = "UPDATE instance SET epoch = $1 WHERE id = 'berth' AND epoch < $1 AND $1 <= $2";
    Instance Read EPOCH = "SELECT epoch FROM instance WHERE id = 'berth'";
    Instance Upkeep PUT_OFF_SESSIONS = "UPDATE sessions SET expires_at = expires_at + $1, active_at = active_at + $1,
          warned_of = warned_of + $1 WHERE ended_at IS NULL";
    Instance Upkeep PUT_OFF_TICKETS = "UPDATE tickets SET expires_at = expires_at + $1,
          takeover_at = takeover_at + $1 WHERE status = 'waiting'";
    // Also where nothing is due: the session's times were moved, and what was decided before is outdated.
    Instance Upkeep PUT_OFF_ENVIRONMENTS = "UPDATE environments SET due_at = due_at + $1, version = version + 1
        WHERE due_at IS NOT NULL OR holder_id IS NOT NULL";
}

pub(crate) fn epoch(conn: &mut dyn Conn) -> Result<i64, StoreError> {
    match conn.query(&EPOCH, &[])?.first() {
        Some(row) => row.int(0),
        None => Err(StoreError::Bug("the instance has no row".into())),
    }
}

/// Fences that are given from here on are above all that may have been given before.
pub(crate) fn raise_epoch(tx: &mut Tx<'_>, given: Option<i64>) -> Result<(), StoreError> {
    let before = tx.row(&EPOCH, &[])?.map_or(Ok(0), |row| row.int(0))?;
    let epoch = raised_epoch(before, given, tx.now());
    set_epoch(tx, epoch)
}

/// What a runner has seen. For servers that are running: every transaction that begins after this one gives fences
/// in the raised epoch, here and in every other server. It has the whole installation for itself.
pub fn heard(tx: &mut Tx<'_>, witness: Witness) -> Result<Heard, StoreError> {
    let own = tx.row(&EPOCH, &[])?.map_or(Ok(0), |row| row.int(0))?;
    let heard = heard_epoch(own, witness, tx.now());
    if let Heard::Above(next) = heard {
        set_epoch(tx, next)?;
    }
    Ok(heard)
}

fn set_epoch(tx: &mut Tx<'_>, epoch: i64) -> Result<(), StoreError> {
    match tx.execute(&RAISE_EPOCH, &[epoch.into(), EPOCH_MAX.into()])? {
        1 => {
            tx.writes_in_epoch(epoch);
            Ok(())
        }
        _ => Err(StoreError::Unavailable(format!("the epoch would be above {EPOCH_MAX}, where fences end"))),
    }
}

/// Which stretch of the installation's life this is.
pub(crate) fn set_incarnation(tx: &mut Tx<'_>, mark: &str) -> Result<(), StoreError> {
    tx.execute_one(&SET_INCARNATION, &[mark.into()])
}

/// The clock was set forward by so many microseconds: nobody loses that time.
pub(crate) fn put_off(conn: &mut dyn Conn, micros: i64) -> Result<(), StoreError> {
    for statement in [&PUT_OFF_SESSIONS, &PUT_OFF_TICKETS, &PUT_OFF_ENVIRONMENTS] {
        conn.execute(statement, &[&micros.into()])?;
    }
    Ok(())
}
