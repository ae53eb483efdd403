//! Commit statuses that forges should show, and each organization's position in the audit log up to which they are
//! known.

use berth_core::commit_status::{CommitState, CommitStatusRecord};
use berth_core::forge::outbox::ForgeWrite;
use berth_core::id::{OrgId, RepositoryId};
use berth_core::time::Timestamp;

use crate::error::StoreError;
use crate::sql::value::text;
use crate::sql::{TableRow as _, column_group, from_row, statements, table, word_columns};
use crate::tx::{StoreRead, Tx};

table!(Org CommitStatusRecord in commit_statuses {
    key: [repository: repository_id, commit: commit_id, context],
    update: [
        deployment: deployment_id, state, description,
        write: (version, written_version, wanted_at, failures, error, due_at),
    ],
});
column_group!(ForgeWrite { version, written_version, wanted_at, failures, error, due_at });
word_columns!(CommitState: CommitState::ALL);

// Needs no events: a status repeats what the events of its deployment say.
statements! {
    Org Read BY_CONTEXT => CommitStatusRecord::TABLE.select("WHERE org_id = $1 AND repository_id = $2 AND commit_id = $3
        AND context = $4 {for_update}");
    Org Upkeep PUT => CommitStatusRecord::TABLE.upsert("");
    // Repositories with a due status, unless one of their unwritten statuses is paused.
    Instance Read DUE = "SELECT org_id, repository_id FROM commit_statuses WHERE due_at IS NOT NULL
        GROUP BY org_id, repository_id
        HAVING MIN(due_at) <= $1 AND COALESCE(MAX(paused_until), CAST(0 AS BIGINT)) <= $1
        ORDER BY MIN(due_at), repository_id LIMIT $2";
    Org Read NEXT => CommitStatusRecord::TABLE.select("WHERE org_id = $1 AND repository_id = $2 AND due_at <= $3
        ORDER BY wanted_at, commit_id, context LIMIT 1");
    Org Upkeep PAUSE = "UPDATE commit_statuses SET paused_until = $3
        WHERE org_id = $1 AND repository_id = $2 AND due_at IS NOT NULL";
    Org Read LAST_ERROR = "SELECT error FROM commit_statuses WHERE org_id = $1 AND repository_id = $2
        AND due_at IS NOT NULL AND error IS NOT NULL ORDER BY wanted_at DESC LIMIT 1";
    Instance Upkeep DELETE_OLD = "DELETE FROM commit_statuses WHERE due_at IS NULL AND wanted_at < $1";
    Instance Read LAGGING = "SELECT h.org_id, COALESCE(c.sequence, CAST(0 AS BIGINT)), h.sequence FROM event_heads h
        LEFT JOIN commit_status_cursors c ON c.org_id = h.org_id
        WHERE COALESCE(c.sequence, CAST(0 AS BIGINT)) < h.sequence AND h.org_id > $1 ORDER BY h.org_id LIMIT $2";
    // Compare-and-swap: changes nothing if another worker has moved the cursor.
    Org Upkeep MOVE = "INSERT INTO commit_status_cursors (org_id, sequence) VALUES ($1, $3)
        ON CONFLICT (org_id) DO UPDATE SET sequence = excluded.sequence WHERE commit_status_cursors.sequence = $2";
}

/// An organization whose events have not all been read for commit statuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaggingStatuses {
    pub org: OrgId,
    pub sequence: i64,
    /// Sequence number of the organization's newest event.
    pub head: i64,
}
from_row!(LaggingStatuses { org, sequence, head });

pub fn by_context(
    db: &mut impl StoreRead,
    repository: RepositoryId,
    commit: &str,
    context: &str,
) -> Result<Option<CommitStatusRecord>, StoreError> {
    db.fetch_optional(&BY_CONTEXT, &[text(repository), commit.into(), context.into()])
}

pub fn put(tx: &mut Tx<'_>, status: &CommitStatusRecord) -> Result<(), StoreError> {
    tx.put(&PUT, status)
}

/// Repositories that have a status to write, longest due first.
pub fn list_due(db: &mut impl StoreRead, limit: i64) -> Result<Vec<(OrgId, RepositoryId)>, StoreError> {
    let now = db.now();
    db.fetch_all(&DUE, &[now.into(), limit.into()])
}

/// The due status of the repository that changed first.
pub fn find_next(
    db: &mut impl StoreRead,
    repository: RepositoryId,
) -> Result<Option<CommitStatusRecord>, StoreError> {
    let now = db.now();
    db.fetch_optional(&NEXT, &[text(repository), now.into()])
}

/// Writes no status of the repository until this time.
pub fn pause(tx: &mut Tx<'_>, repository: RepositoryId, until: Timestamp) -> Result<(), StoreError> {
    tx.execute(&PAUSE, &[text(repository), until.into()]).map(drop)
}

/// Why the newest status of the repository that could not be written is not written yet.
pub fn find_error(db: &mut impl StoreRead, repository: RepositoryId) -> Result<Option<String>, StoreError> {
    db.fetch_optional(&LAST_ERROR, &[text(repository)])
}

/// Deletes statuses of all organizations that have not changed since this time. Returns their number.
pub fn delete_old(tx: &mut Tx<'_>, before: Timestamp) -> Result<u64, StoreError> {
    tx.execute(&DELETE_OLD, &[before.into()])
}

/// Organizations with events to read, in the order of their ids.
pub fn list_lagging(
    db: &mut impl StoreRead,
    after: Option<OrgId>,
    limit: i64,
) -> Result<Vec<LaggingStatuses>, StoreError> {
    let after = after.map(|org| org.to_string()).unwrap_or_default();
    db.fetch_all(&LAGGING, &[after.into(), limit.into()])
}

/// Advances the cursor of the transaction's organization. Returns `false` if it is no longer at `from`.
pub fn move_cursor(tx: &mut Tx<'_>, from: i64, to: i64) -> Result<bool, StoreError> {
    Ok(tx.execute(&MOVE, &[from.into(), to.into()])? == 1)
}
