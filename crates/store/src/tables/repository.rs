//! Git repositories, and the results of syncing them.

use berth_core::id::{OrgId, RepositoryId};
use berth_core::repository::{RemoteUrl, Repository, RepositorySyncState, SyncProblem};
use berth_core::time::Timestamp;

use crate::error::StoreError;
use crate::pagination::{ListPage, PageStart, fetch_page};
use crate::sql::value::text;
use crate::sql::{TableRow as _, ToParams as _, column_group, json_columns, statements, table};
use crate::tx::{StoreRead, Tx};

table!(Org Repository in repositories {
    key: [id],
    update: [
        seen: (default_branch, head, synced_at, error, failures, problems, due_at),
        url, credential, poll_seconds, version, updated_at, deleted_at,
    ],
    insert: [is_partial, created_at],
});
column_group!(RepositorySyncState { default_branch, head, synced_at, error, failures, problems, due_at });
json_columns!(Vec<SyncProblem>);

statements! {
    Org Read BY_ID => Repository::TABLE.select("WHERE org_id = $1 AND id = $2 AND deleted_at IS NULL {for_update}");
    Org Read BY_URL => Repository::TABLE.select("WHERE org_id = $1 AND url = $2 AND deleted_at IS NULL {for_update}");
    Org Read LIST => Repository::TABLE.select(
        "WHERE org_id = $1 AND deleted_at IS NULL AND id > $2 ORDER BY id LIMIT $3 OFFSET $4");
    Org Read COUNT = "SELECT CAST(COUNT(*) AS BIGINT) FROM repositories WHERE org_id = $1 AND deleted_at IS NULL";
    Org Write PUT => Repository::TABLE.upsert("WHERE repositories.version = excluded.version - 1");
    // Needs no event: if the sync finds a change, an event is recorded for that change.
    Org Upkeep SAW = "UPDATE repositories SET default_branch = $3, head = $4, synced_at = $5, error = $6, failures = $7,
          problems = $8, due_at = $9 WHERE org_id = $1 AND id = $2 AND deleted_at IS NULL";
    Org Upkeep HASTEN = "UPDATE repositories SET due_at = $3 WHERE org_id = $1 AND id = $2 AND deleted_at IS NULL";
    // Needs only one index lookup per organization, no matter how many of its repositories are due.
    Instance Read DUE = "SELECT org_id, id FROM (SELECT o.id AS org_id,
            (SELECT r.id FROM repositories r WHERE r.org_id = o.id AND r.due_at IS NOT NULL
              ORDER BY r.due_at, r.id LIMIT 1) AS id,
            (SELECT MIN(r.due_at) FROM repositories r WHERE r.org_id = o.id AND r.due_at IS NOT NULL) AS due_at
          FROM organizations o) AS heads
        WHERE due_at <= $1 ORDER BY due_at, id LIMIT $2";
}

pub fn by_id(db: &mut impl StoreRead, id: RepositoryId) -> Result<Option<Repository>, StoreError> {
    db.fetch_optional(&BY_ID, &[text(id)])
}

pub fn by_url(db: &mut impl StoreRead, url: &RemoteUrl) -> Result<Option<Repository>, StoreError> {
    db.fetch_optional(&BY_URL, &[text(url)])
}

/// Finds a repository by the id from a URL.
pub fn find(db: &mut impl StoreRead, key: &str) -> Result<Option<Repository>, StoreError> {
    key.parse().map_or(Ok(None), |id| by_id(db, id))
}

pub fn list(
    db: &mut impl StoreRead,
    from: &PageStart,
    limit: i64,
) -> Result<ListPage<Repository>, StoreError> {
    let total = Some(count(db)?);
    Ok(fetch_page(db, &LIST, &[], from.by_id(), limit)?.with_total(total))
}

pub fn count(db: &mut impl StoreRead) -> Result<i64, StoreError> {
    db.fetch_count(&COUNT, &[])
}

/// The longest overdue repository of every organization.
pub fn list_due(
    db: &mut impl StoreRead,
    now: Timestamp,
    limit: i64,
) -> Result<Vec<(OrgId, RepositoryId)>, StoreError> {
    db.fetch_all(&DUE, &[now.into(), limit.into()])
}

pub fn put(tx: &mut Tx<'_>, repository: &Repository) -> Result<(), StoreError> {
    tx.put(&PUT, repository)
}

/// Stores the result of a sync. Does not increment the version of the repository.
pub fn put_sync_result(
    tx: &mut Tx<'_>,
    id: RepositoryId,
    seen: &RepositorySyncState,
) -> Result<(), StoreError> {
    let mut params = vec![text(id)];
    seen.to_params(&mut params)?;
    tx.execute_one(&SAW, &params)
}

/// Schedules a sync for this time.
pub fn schedule_sync(tx: &mut Tx<'_>, id: RepositoryId, due_at: Timestamp) -> Result<(), StoreError> {
    tx.execute_one(&HASTEN, &[text(id), due_at.into()])
}
