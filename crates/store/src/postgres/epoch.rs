//! The epoch: it rises when the database has moved to another history of its own, as it does at a failover.
//!
//! A standby that takes over may lack the last commits of the one before it, and with them fences that somebody was
//! given. A new upper part makes every later fence higher than those. Each new connection that writes looks once: a
//! connection lives in one history, so a frozen server of the old one goes on with the lower epoch.

use std::sync::atomic::Ordering;

use berth_core::environment::fence::EPOCH_MAX;

use super::conn::PgConn;
use crate::error::StoreError;

/// Which server it is, and which of its histories. Fails on a standby.
const PLACE: &str = "SELECT (SELECT system_identifier FROM pg_control_system())::text,
    substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)";
const KNOWN: &str = "SELECT epoch::text, system_identifier, timeline FROM instance WHERE id = 'berth'";
/// Several servers see it at the same time; one of them raises it.
const ATTEMPTS_MAX: usize = 5;

impl PgConn {
    /// Looks where this connection writes, and raises the epoch of the installation if that is another history.
    pub(super) fn settle_epoch(&mut self) -> Result<(), StoreError> {
        let here = match self.words(PLACE) {
            Ok(here) => here,
            Err(StoreError::Unavailable(why)) => return Err(StoreError::Unavailable(why)),
            Err(error) => {
                tracing::warn!(%error, "this PostgreSQL does not say which history it is in: a failover is not noticed");
                Vec::new()
            }
        };
        self.failed = None;
        for _ in 0..ATTEMPTS_MAX {
            let known = self.words(KNOWN)?;
            let epoch = known.first().cloned().flatten().and_then(|text| text.parse::<i64>().ok());
            let epoch = epoch.ok_or_else(|| StoreError::Bug("the instance has no epoch".into()))?;
            let [Some(system), Some(timeline)] = &here[..] else {
                return Ok(());
            };
            let is_first = known[1].is_none();
            if known[1].as_ref() == Some(system) && known[2].as_ref() == Some(timeline) {
                return Ok(());
            }
            let next =
                if is_first { epoch } else { above(epoch, known[1].as_ref() == Some(system), timeline)? };
            self.warned.store(false, Ordering::SeqCst);
            self.batch(&format!(
                "UPDATE instance SET epoch = {next}, system_identifier = '{system}', timeline = '{timeline}'
                   WHERE id = 'berth' AND epoch = {epoch} AND system_identifier IS NOT DISTINCT FROM {}",
                known[1].as_ref().map_or_else(|| "NULL".to_owned(), |before| format!("'{before}'"))
            ))?;
            if self.warned.load(Ordering::SeqCst) {
                return Err(StoreError::Unknown("PostgreSQL warned when the epoch was raised".into()));
            }
            if !is_first {
                tracing::warn!(
                    epoch = next,
                    timeline,
                    "PostgreSQL was replaced by another: fences begin anew above all before"
                );
            }
        }
        Err(StoreError::Unavailable("the epoch of the installation changes all the time".into()))
    }
}

/// At least the number of the timeline, which rises with every failover: the one before may not have told this server of
/// the epoch it gave.
fn above(epoch: i64, is_same_system: bool, timeline: &str) -> Result<i64, StoreError> {
    let number =
        i64::from_str_radix(timeline, 16).ok().filter(|number| is_same_system && *number <= EPOCH_MAX);
    let next = number.unwrap_or(0).max(epoch + 1);
    if next > EPOCH_MAX {
        return Err(StoreError::Unavailable(format!(
            "the epoch would be above {EPOCH_MAX}, where fences end"
        )));
    }
    Ok(next)
}
