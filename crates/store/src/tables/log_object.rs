//! Logs in object storage: which object contains which bytes of a log.

use berth_core::id::{DeploymentId, OrgId, StepRunId};
use berth_core::time::Timestamp;

use super::{PAGE_ROWS, first_after};
use crate::error::StoreError;
use crate::sql::value::{SqlValue, text};
use crate::sql::{SqlText, from_row, sql, statements};
use crate::tx::{StoreRead, Tx};

/// Maximum number of objects of one log. Small objects are merged with their successor, so that a log of the maximum
/// size has about half as many.
pub const LOG_OBJECTS_MAX: i64 = 10_000;
/// Maximum number of logs of one deployment.
const LOGS_OF_DEPLOYMENT_MAX: i64 = 100_000;

const fn select(rest: &str) -> SqlText {
    sql("SELECT start_byte, end_byte, is_sealed, object, sha256, object_bytes, stored_at FROM log_objects
        WHERE org_id = $1 AND deployment_id = $2 AND step_id = $3 AND attempt = $4 AND is_after_fence = $5 ")
    .then(rest)
}

statements! {
    // Serializes the changes of one log.
    Org Read LOCK = "SELECT step_id FROM attempts
        WHERE org_id = $1 AND deployment_id = $2 AND step_id = $3 AND number = $4 {for_update}";
    Org Read REPORTED = "SELECT COALESCE(log_bytes, 0) FROM attempts
        WHERE org_id = $1 AND deployment_id = $2 AND step_id = $3 AND number = $4";
    Org Read AFTER => select("AND (end_byte > $6 OR is_sealed = 1) ORDER BY start_byte LIMIT $7");
    Org Read LAST => select("ORDER BY start_byte DESC LIMIT 1");
    Org Upkeep INSERT = "INSERT INTO log_objects (org_id, deployment_id, step_id, attempt, is_after_fence, start_byte,
          end_byte, is_sealed, object, sha256, object_bytes, stored_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";
    Org Upkeep DELETE_FROM = "DELETE FROM log_objects
        WHERE org_id = $1 AND deployment_id = $2 AND step_id = $3 AND attempt = $4 AND is_after_fence = $5
          AND start_byte >= $6";
    Org Read OF_DEPLOYMENT = "SELECT deployment_id, step_id, attempt, is_after_fence, MAX(stored_at) FROM log_objects
        WHERE org_id = $1 AND deployment_id = $2
        GROUP BY deployment_id, step_id, attempt, is_after_fence LIMIT $3";
    // The first condition is that of a partial index. In random order, so that logs that cannot be sealed do not keep the
    // rest waiting.
    Instance Read ABANDONED = "SELECT o.org_id, o.deployment_id, o.step_id, o.attempt, o.is_after_fence, MAX(a.ended_at)
        FROM log_objects o JOIN attempts a ON a.org_id = o.org_id AND a.deployment_id = o.deployment_id
          AND a.step_id = o.step_id AND a.number = o.attempt
        WHERE o.is_sealed = 0 AND a.ended_at <= $1
        GROUP BY o.org_id, o.deployment_id, o.step_id, o.attempt, o.is_after_fence ORDER BY RANDOM() LIMIT $2";
    Instance Read ANY = "SELECT object FROM log_objects LIMIT 1";
    Org Read BY_OBJECT = "SELECT object FROM log_objects WHERE org_id = $1 AND object = $2";
    Org Read PAGE = "SELECT deployment_id, step_id, attempt, is_after_fence, start_byte, end_byte, is_sealed, object,
          sha256, object_bytes, stored_at FROM log_objects
        WHERE org_id = $1
          AND (deployment_id, step_id, attempt, is_after_fence, start_byte) > ($2, $3, $4, $5, $6)
        ORDER BY deployment_id, step_id, attempt, is_after_fence, start_byte LIMIT $7";
}

/// A log of the transaction's organization.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StoredLogKey {
    pub deployment: DeploymentId,
    pub step: StepRunId,
    pub attempt: u32,
    pub is_after_fence: bool,
}
from_row!(StoredLogKey { deployment, step, attempt, is_after_fence });

impl StoredLogKey {
    fn attempt(&self) -> [SqlValue; 3] {
        [text(self.deployment), text(self.step), i64::from(self.attempt).into()]
    }

    fn params<const N: usize>(&self, rest: [SqlValue; N]) -> Vec<SqlValue> {
        let key = [
            text(self.deployment),
            text(self.step),
            i64::from(self.attempt).into(),
            i64::from(self.is_after_fence).into(),
        ];
        key.into_iter().chain(rest).collect()
    }
}

/// An object that contains the bytes of a log from `start` to `end`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogObject {
    pub start: i64,
    pub end: i64,
    pub is_sealed: bool,
    pub object: String,
    /// Digest of the object.
    pub sha256: String,
    pub bytes: i64,
    pub stored_at: Timestamp,
}
from_row!(LogObject { start, end, is_sealed, object, sha256, bytes, stored_at });

/// An unsealed log of an ended attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AbandonedLog {
    pub org: OrgId,
    pub log: StoredLogKey,
    pub ended_at: Timestamp,
}
from_row!(AbandonedLog { org, log, ended_at });

/// Locks a log against changes by other transactions.
pub fn lock(tx: &mut Tx<'_>, log: &StoredLogKey) -> Result<(), StoreError> {
    tx.row(&LOCK, &log.attempt()).map(drop)
}

/// The length that the runner reported at the end of the attempt. 0 if it has not reported any yet.
pub fn find_reported_length(db: &mut impl StoreRead, log: &StoredLogKey) -> Result<i64, StoreError> {
    db.fetch_count(&REPORTED, &log.attempt())
}

/// The objects with bytes after `offset`, in order, or only the sealed one. At most `limit`.
pub fn list_after(
    db: &mut impl StoreRead,
    log: &StoredLogKey,
    offset: i64,
    limit: i64,
) -> Result<Vec<LogObject>, StoreError> {
    db.fetch_all(&AFTER, &log.params([offset.into(), limit.into()]))
}

pub fn find_last(db: &mut impl StoreRead, log: &StoredLogKey) -> Result<Option<LogObject>, StoreError> {
    db.fetch_optional(&LAST, &log.params([]))
}

/// Inserts an object, which replaces those that start at its start or later. Their rows are returned.
pub fn replace_from(
    tx: &mut Tx<'_>,
    log: &StoredLogKey,
    with: &LogObject,
) -> Result<Vec<LogObject>, StoreError> {
    let replaced = list_after(tx, log, with.start, LOG_OBJECTS_MAX)?;
    let replaced: Vec<LogObject> = replaced.into_iter().filter(|it| it.start >= with.start).collect();
    tx.execute(&DELETE_FROM, &log.params([with.start.into()]))?;
    let row = [
        with.start.into(),
        with.end.into(),
        i64::from(with.is_sealed).into(),
        with.object.as_str().into(),
        with.sha256.as_str().into(),
        with.bytes.into(),
        with.stored_at.into(),
    ];
    tx.execute_one(&INSERT, &log.params(row))?;
    Ok(replaced)
}

/// The logs of a deployment, and when each was last written.
pub fn list_of_deployment(
    db: &mut impl StoreRead,
    deployment: DeploymentId,
) -> Result<Vec<(StoredLogKey, Timestamp)>, StoreError> {
    db.fetch_all(&OF_DEPLOYMENT, &[text(deployment), LOGS_OF_DEPLOYMENT_MAX.into()])
}

/// Logs of all organizations that are not sealed although their attempt ended before this time.
pub fn list_abandoned(
    db: &mut impl StoreRead,
    before: Timestamp,
    limit: i64,
) -> Result<Vec<AbandonedLog>, StoreError> {
    db.fetch_all(&ABANDONED, &[before.into(), limit.into()])
}

/// Whether any log is in object storage.
pub fn has_any(db: &mut impl StoreRead) -> Result<bool, StoreError> {
    Ok(db.row(&ANY, &[])?.is_some())
}

/// Whether a log refers to this object.
pub fn has_object(db: &mut impl StoreRead, object: &str) -> Result<bool, StoreError> {
    Ok(db.row(&BY_OBJECT, &[object.into()])?.is_some())
}

/// All objects of the organization's logs, one page at a time.
pub fn list_page(
    db: &mut impl StoreRead,
    after: Option<&(StoredLogKey, LogObject)>,
) -> Result<Vec<(StoredLogKey, LogObject)>, StoreError> {
    let (log, object) = (after.map(|(log, _)| log), after.map(|(_, object)| object));
    db.fetch_all(
        &PAGE,
        &[
            first_after(log.map(|log| log.deployment)),
            first_after(log.map(|log| log.step)),
            log.map_or(-1, |log| i64::from(log.attempt)).into(),
            log.map_or(-1, |log| i64::from(log.is_after_fence)).into(),
            object.map_or(-1, |object| object.start).into(),
            PAGE_ROWS.into(),
        ],
    )
}
