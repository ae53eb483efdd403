//! Repositories: what somebody registered, and what was last seen there.

use berth_core::id::RepositoryId;
use berth_core::repository::{RemoteUrl, Repository, Seen};
use berth_core::time::Timestamp;

use crate::error::StoreError;
use crate::sql::statements;
use crate::tx::{Read, Tx};
use crate::value::{Row, text, to_json};

statements! {
    Org Read BY_ID = "SELECT id, url, credential, poll_seconds, default_branch, head, synced_at, error, failures, problems,
        due_at, version, created_at, updated_at, deleted_at FROM repositories
        WHERE org_id = $1 AND id = $2 AND deleted_at IS NULL {for_update}";
    Org Read BY_URL = "SELECT id, url, credential, poll_seconds, default_branch, head, synced_at, error, failures, problems,
        due_at, version, created_at, updated_at, deleted_at FROM repositories
        WHERE org_id = $1 AND url = $2 AND deleted_at IS NULL {for_update}";
    Org Write PUT = "INSERT INTO repositories (org_id, id, url, credential, poll_seconds, default_branch, head, synced_at,
          error, failures, problems, due_at, version, created_at, updated_at, deleted_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
        ON CONFLICT (org_id, id) DO UPDATE SET url = excluded.url, credential = excluded.credential,
          poll_seconds = excluded.poll_seconds, default_branch = excluded.default_branch, head = excluded.head,
          synced_at = excluded.synced_at, error = excluded.error, failures = excluded.failures,
          problems = excluded.problems, due_at = excluded.due_at, version = excluded.version,
          updated_at = excluded.updated_at, deleted_at = excluded.deleted_at
        WHERE repositories.version = excluded.version - 1";
    // A look that found nothing new is no change; what it did find has its own events.
    Org Upkeep SAW = "UPDATE repositories SET default_branch = $3, head = $4, synced_at = $5, error = $6, failures = $7,
          problems = $8, due_at = $9 WHERE org_id = $1 AND id = $2 AND deleted_at IS NULL";
    Org Upkeep HASTEN = "UPDATE repositories SET due_at = $3 WHERE org_id = $1 AND id = $2 AND deleted_at IS NULL";
}

pub(crate) fn read(row: &Row) -> Result<Repository, StoreError> {
    let text = |column| Ok::<_, StoreError>(row.maybe(column, Row::text)?.map(str::to_owned));
    Ok(Repository {
        id: row.parse(0)?,
        url: row.name(1)?,
        credential: row.maybe(2, Row::name)?,
        poll_seconds: row.int(3)?,
        seen: Seen {
            default_branch: text(4)?,
            head: text(5)?,
            synced_at: row.maybe(6, Row::time)?,
            error: text(7)?,
            failures: row.int(8)?,
            problems: row.json(9)?,
            due_at: row.maybe(10, Row::time)?,
        },
        version: row.int(11)?,
        created_at: row.time(12)?,
        updated_at: row.time(13)?,
        deleted_at: row.maybe(14, Row::time)?,
    })
}

pub fn by_id(db: &mut impl Read, id: RepositoryId) -> Result<Option<Repository>, StoreError> {
    db.row(&BY_ID, &[text(id)])?.as_ref().map(read).transpose()
}

pub fn by_url(db: &mut impl Read, url: &RemoteUrl) -> Result<Option<Repository>, StoreError> {
    db.row(&BY_URL, &[text(url)])?.as_ref().map(read).transpose()
}

/// By the id in a URL; text that cannot be one is simply not found.
pub fn find(db: &mut impl Read, key: &str) -> Result<Option<Repository>, StoreError> {
    key.parse().map_or(Ok(None), |id| by_id(db, id))
}

pub fn put(tx: &mut Tx<'_>, repository: &Repository) -> Result<(), StoreError> {
    let seen = &repository.seen;
    let params = [
        text(repository.id),
        text(&repository.url),
        repository.credential.as_ref().map(text).into(),
        repository.poll_seconds.into(),
        seen.default_branch.as_deref().into(),
        seen.head.as_deref().into(),
        seen.synced_at.into(),
        seen.error.as_deref().into(),
        seen.failures.into(),
        to_json(&seen.problems)?.into(),
        seen.due_at.into(),
        repository.version.into(),
        repository.created_at.into(),
        repository.updated_at.into(),
        repository.deleted_at.into(),
    ];
    tx.execute_one(&PUT, &params)
}

/// What a sync found; the record's version stays.
pub fn saw(tx: &mut Tx<'_>, id: RepositoryId, seen: &Seen) -> Result<(), StoreError> {
    let params = [
        text(id),
        seen.default_branch.as_deref().into(),
        seen.head.as_deref().into(),
        seen.synced_at.into(),
        seen.error.as_deref().into(),
        seen.failures.into(),
        to_json(&seen.problems)?.into(),
        seen.due_at.into(),
    ];
    tx.execute_one(&SAW, &params)
}

/// It shall be looked at by then.
pub fn hasten(tx: &mut Tx<'_>, id: RepositoryId, due_at: Timestamp) -> Result<(), StoreError> {
    tx.execute_one(&HASTEN, &[text(id), due_at.into()])
}
