//! Pull requests of connected repositories.

use std::fmt;
use std::str::FromStr;

use berth_core::forge::{ForgeUser, PullRequest, PullRequestSnapshot, PullRequestStatus};
use berth_core::id::{OrgId, RepositoryId};
use berth_core::time::Timestamp;

use crate::error::StoreError;
use crate::pagination::{ListPage, PageStart, fetch_bounded_count};
use crate::sql::value::{SqlValue, text};
use crate::sql::{SqlText, TableRow as _, column_group, sql, statements, table, word_columns};
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

/// Repositories without pipelines are left out, and with them deleted ones.
const CONDITIONS: &str =
    " AND ($3 = '' OR repository_id = $3) AND ($4 = CAST(0 AS BIGINT) OR number = $4) AND EXISTS (SELECT 1 FROM pipelines p
    WHERE p.org_id = $1 AND p.repository_id = pull_requests.repository_id AND p.deleted_at IS NULL) ";

/// `by_status` is a condition of its own, so that an index serves it.
const fn page(by_status: &str) -> SqlText {
    let text = sql("SELECT ")
        .columns(&PullRequest::TABLE, "pull_requests")
        .then(" FROM pull_requests WHERE org_id = $1 AND ");
    text.then(by_status).then(CONDITIONS).then(
        "AND (created_at, repository_id, number) < ($6, $7, $8)
        ORDER BY created_at DESC, repository_id DESC, number DESC LIMIT $5 OFFSET $9",
    )
}

const fn count_of(by_status: &str) -> SqlText {
    let text =
        sql("SELECT CAST(COUNT(*) AS BIGINT) FROM (SELECT 1 FROM pull_requests WHERE org_id = $1 AND ");
    text.then(by_status).then(CONDITIONS).then("LIMIT $5) AS counted")
}

statements! {
    Org Read BY_NUMBER => PullRequest::TABLE.select("WHERE org_id = $1 AND repository_id = $2 AND number = $3 {for_update}");
    Org Read LIST_ALL => page("$2 = ''");
    Org Read LIST_WITH_STATUS => page("status = $2");
    Org Read COUNT_ALL => count_of("$2 = ''");
    Org Read COUNT_WITH_STATUS => count_of("status = $2");
    Org Read OPEN_OF_REPOSITORY => PullRequest::TABLE.select("WHERE org_id = $1 AND repository_id = $2
        AND status = 'open' ORDER BY number LIMIT $3");
    // Needs no event: it repeats what the forge says. Sessions and deployments that follow from it record events.
    Org Upkeep PUT => PullRequest::TABLE.upsert("");
    Org Upkeep SET_DUE = "UPDATE pull_requests SET due_at = $4
        WHERE org_id = $1 AND repository_id = $2 AND number = $3 AND (due_at IS NULL OR due_at > $4)";
    // Asks for a comparison with the forge.
    Org Upkeep CLEAR_READ = "UPDATE pull_requests SET read_at = NULL
        WHERE org_id = $1 AND repository_id = $2 AND number = $3";
    Org Upkeep SET_READ = "UPDATE pull_requests SET read_at = $4
        WHERE org_id = $1 AND repository_id = $2 AND number = $3";
    // Not those about which there are news.
    Org Upkeep SET_OPEN_READ = "UPDATE pull_requests SET read_at = $3
        WHERE org_id = $1 AND repository_id = $2 AND status = 'open' AND read_at IS NOT NULL";
    Org Read NEEDS_READ = "SELECT CAST(COUNT(*) AS BIGINT) FROM pull_requests
        WHERE org_id = $1 AND repository_id = $2 AND number = $3 AND (read_at IS NULL OR read_at <= $4)";
    Org Read CHECKED_HEAD = "SELECT checked_head FROM pull_requests
        WHERE org_id = $1 AND repository_id = $2 AND number = $3";
    Org Upkeep SET_CHECKED_HEAD = "UPDATE pull_requests SET checked_head = $4
        WHERE org_id = $1 AND repository_id = $2 AND number = $3";
    Org Upkeep SET_BRANCH_DUE = "UPDATE pull_requests SET due_at = $4, read_at = NULL
        WHERE org_id = $1 AND repository_id = $2 AND status = 'open' AND (head_branch = $3 OR base_branch = $3)";
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
    pub number: Option<i64>,
}

pub fn by_number(
    db: &mut impl StoreRead,
    repository: RepositoryId,
    number: i64,
) -> Result<Option<PullRequest>, StoreError> {
    db.fetch_optional(&BY_NUMBER, &[text(repository), number.into()])
}

/// The position of a pull request in lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PullRequestCursor {
    created_at: Timestamp,
    repository: RepositoryId,
    number: i64,
}

impl PullRequestCursor {
    pub fn of(pull_request: &PullRequest) -> Self {
        let PullRequest { created_at, repository, number, .. } = *pull_request;
        Self { created_at, repository, number }
    }
}

impl fmt::Display for PullRequestCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.created_at.as_micros(), self.repository, self.number)
    }
}

impl FromStr for PullRequestCursor {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.split('.');
        let mut next = || parts.next().ok_or("must have three parts");
        let created_at = next()?.parse().map_err(|_| "must start with a time")?;
        let repository = next()?.parse().map_err(|_| "must name a repository")?;
        let number = next()?.parse().map_err(|_| "must end with a number")?;
        Ok(Self { created_at: Timestamp::from_micros(created_at), repository, number })
    }
}

/// Pull requests of repositories with pipelines, newest first. With `with_total`, also counts them, up to a limit.
pub fn list(
    db: &mut impl StoreRead,
    filter: PullRequestFilter,
    from: &PageStart,
    limit: i64,
    with_total: bool,
) -> Result<ListPage<PullRequest>, StoreError> {
    let conditions: [SqlValue; 3] = [
        filter.status.map_or("", PullRequestStatus::as_str).into(),
        filter.repository.map_or_else(|| "".into(), text),
        filter.number.unwrap_or(0).into(),
    ];
    let start: [SqlValue; 4] = match from {
        PageStart::Offset(offset) => [i64::MAX.into(), "".into(), 0.into(), (*offset).into()],
        PageStart::After(key) => {
            let Ok(after) = key.parse::<PullRequestCursor>() else {
                return Ok(ListPage { items: Vec::new(), total: None, has_more: false });
            };
            [after.created_at.into(), text(after.repository), after.number.into(), 0.into()]
        }
    };
    let (list, count) = match filter.status {
        Some(_) => (&LIST_WITH_STATUS, &COUNT_WITH_STATUS),
        None => (&LIST_ALL, &COUNT_ALL),
    };
    let params = [&conditions[..], &[(limit + 1).into()], &start].concat();
    let items = db.fetch_all(list, &params)?;
    let total = if with_total { fetch_bounded_count(db, count, &conditions)? } else { None };
    Ok(ListPage::from_rows(items, limit, total))
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
            let seen = if seen.changed_at >= stored.seen.changed_at { seen } else { stored.seen.clone() };
            PullRequest { due_at: Some(now), ..replace_snapshot(stored, seen) }
        }
    };
    put(tx, &after)?;
    tx.execute(&CLEAR_READ, &[text(repository), number.into()]).map(drop)
}

/// Stores what the forge's API says about a pull request, without making it due. Older news than what is stored are
/// ignored. Does nothing if the pull request is not stored.
pub fn refresh(
    tx: &mut Tx<'_>,
    repository: RepositoryId,
    number: i64,
    seen: PullRequestSnapshot,
) -> Result<(), StoreError> {
    let Some(stored) = by_number(tx, repository, number)? else { return Ok(()) };
    if seen.changed_at >= stored.seen.changed_at && seen != stored.seen {
        put(tx, &replace_snapshot(stored, seen))?;
    }
    set_read(tx, repository, number)
}

/// Replaces what the forge says. An approval was given for the environments that the pull request could use then, so
/// it ends if something changes that triggers look at.
fn replace_snapshot(stored: PullRequest, seen: PullRequestSnapshot) -> PullRequest {
    let before = &stored.seen;
    let is_same = before.base_branch == seen.base_branch
        && before.is_draft == seen.is_draft
        && before.labels == seen.labels;
    let (approved_head, approved_by) =
        if is_same { (stored.approved_head, stored.approved_by) } else { (None, None) };
    PullRequest { seen, approved_head, approved_by, ..stored }
}

/// Records that the forge was asked about a pull request.
pub fn set_read(tx: &mut Tx<'_>, repository: RepositoryId, number: i64) -> Result<(), StoreError> {
    let now = tx.now();
    tx.execute(&SET_READ, &[text(repository), number.into(), now.into()]).map(drop)
}

/// Records that the open pull requests of a repository are as the forge has listed them.
pub fn set_open_read(tx: &mut Tx<'_>, repository: RepositoryId) -> Result<(), StoreError> {
    let now = tx.now();
    tx.execute(&SET_OPEN_READ, &[text(repository), now.into()]).map(drop)
}

/// Whether the forge must be asked about a pull request: there are news, or it was last asked before this time.
pub fn needs_read(
    db: &mut impl StoreRead,
    repository: RepositoryId,
    number: i64,
    before: Timestamp,
) -> Result<bool, StoreError> {
    Ok(db.fetch_count(&NEEDS_READ, &[text(repository), number.into(), before.into()])? > 0)
}

/// Makes a pull request due now, to be compared with the forge.
pub fn request_read(tx: &mut Tx<'_>, repository: RepositoryId, number: i64) -> Result<(), StoreError> {
    tx.execute(&CLEAR_READ, &[text(repository), number.into()])?;
    let now = tx.now();
    set_due(tx, repository, number, now)
}

/// The head commit whose definition was checked.
pub fn find_checked_head(
    db: &mut impl StoreRead,
    repository: RepositoryId,
    number: i64,
) -> Result<Option<String>, StoreError> {
    Ok(db.fetch_optional(&CHECKED_HEAD, &[text(repository), number.into()])?.flatten())
}

pub fn set_checked_head(
    tx: &mut Tx<'_>,
    repository: RepositoryId,
    number: i64,
    head: &str,
) -> Result<(), StoreError> {
    tx.execute(&SET_CHECKED_HEAD, &[text(repository), number.into(), head.into()]).map(drop)
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

#[cfg(test)]
mod tests {
    use berth_core::id::UserId;

    use super::*;

    #[test]
    fn approval_ends_when_the_pull_request_could_use_other_environments() {
        let time = Timestamp::from_micros(1);
        let seen = PullRequestSnapshot {
            title: "Dark mode".into(),
            url: "https://git.acme.test/acme/shop/pull/42".into(),
            author: ForgeUser { id: "7".into(), name: "grace".into() },
            head: "4d6d0ebe".repeat(5),
            head_branch: "dark-mode".into(),
            base_branch: "main".into(),
            is_fork: true,
            labels: vec!["preview".into()],
            is_draft: false,
            status: PullRequestStatus::Open,
            changed_at: time,
        };
        let stored = PullRequest {
            repository: RepositoryId::from_parts(time, [0; 10]),
            number: 42,
            seen: seen.clone(),
            approved_head: Some(seen.head.clone()),
            approved_by: Some(UserId::from_parts(time, [0; 10])),
            comment: None,
            comment_hash: None,
            commented_at: None,
            error: None,
            failures: 0,
            due_at: None,
            created_at: time,
        };
        let after = |seen: PullRequestSnapshot| {
            let after = replace_snapshot(stored.clone(), seen);
            (after.approved_head.is_some(), after.approved_by.is_some())
        };
        assert_eq!(after(PullRequestSnapshot { title: "Light mode".into(), ..seen.clone() }), (true, true));
        for changed in [
            PullRequestSnapshot { base_branch: "production".into(), ..seen.clone() },
            PullRequestSnapshot { is_draft: true, ..seen.clone() },
            PullRequestSnapshot { labels: Vec::new(), ..seen.clone() },
        ] {
            assert_eq!(after(changed), (false, false));
        }
    }
}
