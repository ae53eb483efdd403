//! Pull requests of connected repositories.

use berth_core::forge::{ForgeUser, PullRequest, PullRequestSnapshot, PullRequestStatus};
use berth_core::id::{OrgId, RepositoryId};
use berth_core::time::Timestamp;

use crate::error::StoreError;
use crate::sql::value::text;
use crate::sql::{TableRow as _, column_group, statements, table, word_columns};
use crate::tx::{StoreRead, Tx};

table!(Org PullRequest in pull_requests {
    key: [repository: repository_id, number],
    update: [
        seen: (title, url, author_id, author_name, head, head_branch, base_branch, is_fork, labels, is_draft, status,
            changed_at),
        approved_head, approved_by, comment: comment_id, comment_hash, commented_at, error, failures, due_at,
    ],
    insert: [created_at],
});
column_group!(PullRequestSnapshot {
    title,
    url,
    author,
    head,
    head_branch,
    base_branch,
    is_fork,
    labels,
    is_draft,
    status,
    changed_at
});
column_group!(ForgeUser { id, name });
word_columns!(PullRequestStatus: PullRequestStatus::ALL);

statements! {
    Org Read BY_NUMBER => PullRequest::TABLE.select("WHERE org_id = $1 AND repository_id = $2 AND number = $3 {for_update}");
    Org Read LIST => PullRequest::TABLE.select("WHERE org_id = $1 AND (CAST($2 AS TEXT) IS NULL OR status = $2)
        AND (CAST($3 AS TEXT) IS NULL OR repository_id = $3) ORDER BY created_at DESC, repository_id, number DESC
        LIMIT $4 OFFSET $5");
    Org Read COUNT = "SELECT CAST(COUNT(*) AS BIGINT) FROM pull_requests WHERE org_id = $1
        AND (CAST($2 AS TEXT) IS NULL OR status = $2) AND (CAST($3 AS TEXT) IS NULL OR repository_id = $3)";
    Org Read OPEN_OF_REPOSITORY => PullRequest::TABLE.select("WHERE org_id = $1 AND repository_id = $2
        AND status = 'open' ORDER BY number LIMIT $3");
    // Needs no event: it repeats what the forge says. Sessions and deployments that follow from it record events.
    Org Upkeep PUT => PullRequest::TABLE.upsert("");
    Org Upkeep SET_DUE = "UPDATE pull_requests SET due_at = $4
        WHERE org_id = $1 AND repository_id = $2 AND number = $3 AND (due_at IS NULL OR due_at > $4)";
    Org Upkeep SET_BRANCH_DUE = "UPDATE pull_requests SET due_at = $4
        WHERE org_id = $1 AND repository_id = $2 AND status = 'open' AND (head_branch = $3 OR base_branch = $3)
          AND (due_at IS NULL OR due_at > $4)";
    Org Upkeep SET_OPEN_DUE = "UPDATE pull_requests SET due_at = $3
        WHERE org_id = $1 AND repository_id = $2 AND status = 'open' AND (due_at IS NULL OR due_at > $3)";
    // The one of each organization that has been due the longest.
    Instance Read DUE = "SELECT org_id, repository_id, number FROM (
          SELECT org_id, repository_id, number, due_at,
            ROW_NUMBER() OVER (PARTITION BY org_id ORDER BY due_at, repository_id, number) AS place
          FROM pull_requests WHERE due_at <= $1) AS ranked
        WHERE place <= $2 ORDER BY place, due_at LIMIT $3";
}

/// Which pull requests to list.
#[derive(Debug, Clone, Copy, Default)]
pub struct PullRequestFilter {
    pub status: Option<PullRequestStatus>,
    pub repository: Option<RepositoryId>,
}

pub fn by_number(
    db: &mut impl StoreRead,
    repository: RepositoryId,
    number: i64,
) -> Result<Option<PullRequest>, StoreError> {
    db.fetch_optional(&BY_NUMBER, &[text(repository), number.into()])
}

/// Pull requests, newest first.
pub fn list(
    db: &mut impl StoreRead,
    filter: PullRequestFilter,
    limit: i64,
    offset: i64,
) -> Result<Vec<PullRequest>, StoreError> {
    let status = filter.status.map(PullRequestStatus::as_str);
    let repository = filter.repository.map(|it| it.to_string());
    db.fetch_all(&LIST, &[status.into(), repository.into(), limit.into(), offset.into()])
}

pub fn count(db: &mut impl StoreRead, filter: PullRequestFilter) -> Result<i64, StoreError> {
    let status = filter.status.map(PullRequestStatus::as_str);
    let repository = filter.repository.map(|it| it.to_string());
    db.fetch_count(&COUNT, &[status.into(), repository.into()])
}

pub fn list_open(
    db: &mut impl StoreRead,
    repository: RepositoryId,
    limit: i64,
) -> Result<Vec<PullRequest>, StoreError> {
    db.fetch_all(&OPEN_OF_REPOSITORY, &[text(repository), limit.into()])
}

pub fn put(tx: &mut Tx<'_>, pull_request: &PullRequest) -> Result<(), StoreError> {
    tx.put(&PUT, pull_request)
}

/// Stores what the forge says about a pull request, and makes it due. Older news than what is stored is ignored; the
/// pull request is still made due, so that it is compared with the forge.
pub fn see(
    tx: &mut Tx<'_>,
    repository: RepositoryId,
    number: i64,
    seen: PullRequestSnapshot,
) -> Result<(), StoreError> {
    let now = tx.now();
    let stored = by_number(tx, repository, number)?;
    let after = match stored {
        None => PullRequest {
            repository,
            number,
            seen,
            approved_head: None,
            approved_by: None,
            comment: None,
            comment_hash: None,
            commented_at: None,
            error: None,
            failures: 0,
            due_at: Some(now),
            created_at: now,
        },
        Some(stored) => {
            let seen = if seen.changed_at >= stored.seen.changed_at { seen } else { stored.seen };
            PullRequest { seen, due_at: Some(now), ..stored }
        }
    };
    put(tx, &after)
}

/// Makes a pull request due at this time, or earlier if it is already due earlier.
pub fn set_due(
    tx: &mut Tx<'_>,
    repository: RepositoryId,
    number: i64,
    due_at: Timestamp,
) -> Result<(), StoreError> {
    tx.execute(&SET_DUE, &[text(repository), number.into(), due_at.into()]).map(drop)
}

/// Makes the open pull requests due that come from or lead to this branch.
pub fn set_branch_due(
    tx: &mut Tx<'_>,
    repository: RepositoryId,
    branch: &str,
    due_at: Timestamp,
) -> Result<(), StoreError> {
    tx.execute(&SET_BRANCH_DUE, &[text(repository), branch.into(), due_at.into()]).map(drop)
}

/// Makes all open pull requests of a repository due.
pub fn set_open_due(tx: &mut Tx<'_>, repository: RepositoryId, due_at: Timestamp) -> Result<(), StoreError> {
    tx.execute(&SET_OPEN_DUE, &[text(repository), due_at.into()]).map(drop)
}

/// Pull requests of all organizations that are due, with at most `share` of each organization.
pub fn list_due(
    db: &mut impl StoreRead,
    now: Timestamp,
    share: i64,
    limit: i64,
) -> Result<Vec<(OrgId, RepositoryId, i64)>, StoreError> {
    db.fetch_all(&DUE, &[now.into(), share.into(), limit.into()])
}
