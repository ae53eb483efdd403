//! Raises the epoch of fences (fencing tokens) when the database is on another timeline, as it is after a failover.
//!
//! A promoted standby may lack the last commits of the old primary, and with them fences that were issued. A higher
//! epoch makes all later fences greater than the lost ones. Checking once per write connection is enough, because a
//! connection stays on one timeline. A server that is still connected to the old primary keeps the lower epoch.

use std::sync::atomic::Ordering;

use berth_core::environment::fence::EPOCH_MAX;

use super::conn::PgConn;
use crate::error::StoreError;

/// Reads the system identifier and the timeline of the database. Fails on a standby.
const PLACE: &str = "SELECT (SELECT system_identifier FROM pg_control_system())::text,
    substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)";
const KNOWN: &str = "SELECT epoch::text, system_identifier, timeline FROM instance WHERE id = 'berth'";
/// If several servers notice a failover at the same time, one of them raises the epoch and the others have to read it
/// again.
const ATTEMPTS_MAX: usize = 5;

impl PgConn {
    /// Checks the timeline of this connection, and raises the epoch if it has changed.
    pub(super) fn check_timeline(&mut self) -> Result<(), StoreError> {
        let here = match self.query_texts(PLACE) {
            Ok(here) => here,
            Err(StoreError::Unavailable(why)) => return Err(StoreError::Unavailable(why)),
            Err(error) => {
                tracing::warn!(%error, "timeline cannot be read; failovers are not detected");
                Vec::new()
            }
        };
        self.failed = None;
        for _ in 0..ATTEMPTS_MAX {
            let known = self.query_texts(KNOWN)?;
            let epoch = known.first().cloned().flatten().and_then(|text| text.parse::<i64>().ok());
            let epoch = epoch.ok_or_else(|| StoreError::Bug("the instance has no epoch".into()))?;
            let [Some(system), Some(timeline)] = &here[..] else {
                return Ok(());
            };
            let is_first = known[1].is_none();
            if known[1].as_ref() == Some(system) && known[2].as_ref() == Some(timeline) {
                return Ok(());
            }
            let next = if is_first {
                epoch
            } else {
                epoch_above(epoch, known[1].as_ref() == Some(system), timeline)?
            };
            self.warned.store(false, Ordering::SeqCst);
            self.batch(&format!(
                "UPDATE instance SET epoch = {next}, system_identifier = '{system}', timeline = '{timeline}'
                   WHERE id = 'berth' AND epoch = {epoch} AND system_identifier IS NOT DISTINCT FROM {}",
                known[1].as_ref().map_or_else(|| "NULL".to_owned(), |before| format!("'{before}'"))
            ))?;
            if self.warned.load(Ordering::SeqCst) {
                return Err(StoreError::Unknown(
                    "PostgreSQL sent a warning when the epoch was raised".into(),
                ));
            }
            if !is_first {
                tracing::warn!(epoch = next, timeline, "PostgreSQL failover detected; epoch raised");
            }
        }
        Err(StoreError::Unavailable("the epoch keeps changing".into()))
    }
}

/// The next epoch after a failover. The database may lack epochs that were used on earlier timelines. The number of the
/// timeline increases with every failover, so the result is at least that number.
fn epoch_above(epoch: i64, is_same_system: bool, timeline: &str) -> Result<i64, StoreError> {
    let number =
        i64::from_str_radix(timeline, 16).ok().filter(|number| is_same_system && *number <= EPOCH_MAX);
    let next = number.unwrap_or(0).max(epoch + 1);
    if next > EPOCH_MAX {
        return Err(StoreError::Unavailable(format!(
            "the epoch would exceed {EPOCH_MAX}, the highest that fits a fence"
        )));
    }
    Ok(next)
}
