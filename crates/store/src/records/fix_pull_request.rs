//! Pull requests of suggested fixes.

use berth_core::analysis::FixPullRequest;
use berth_core::id::{AnalysisId, RepositoryId};

use crate::error::StoreError;
use crate::sql::statements;
use crate::tx::{Read, Tx};
use crate::value::{Row, text, to_json};

statements! {
    Org Read OF_ANALYSIS = "SELECT analysis_id, repository_id, fingerprint, state, branch, commit_id, number, url, error,
          ended_at, asked_by, created_at, updated_at, version
        FROM fix_pull_requests WHERE org_id = $1 AND analysis_id = $2 {for_update}";
    Org Read LIVE = "SELECT analysis_id, repository_id, fingerprint, state, branch, commit_id, number, url, error,
          ended_at, asked_by, created_at, updated_at, version
        FROM fix_pull_requests
        WHERE org_id = $1 AND repository_id = $2 AND fingerprint = $3 AND state IN ('opening', 'open', 'pushed') {for_update}";
    Org Read OF_FAILURE = "SELECT analysis_id, repository_id, fingerprint, state, branch, commit_id, number, url, error,
          ended_at, asked_by, created_at, updated_at, version
        FROM fix_pull_requests WHERE org_id = $1 AND repository_id = $2 AND fingerprint = $3
        ORDER BY updated_at DESC LIMIT $4";
    Org Write PUT = "INSERT INTO fix_pull_requests (org_id, analysis_id, repository_id, fingerprint, state, branch,
          commit_id, number, url, error, ended_at, asked_by, created_at, updated_at, version)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
        ON CONFLICT (org_id, analysis_id) DO UPDATE SET state = excluded.state, branch = excluded.branch,
          commit_id = excluded.commit_id, number = excluded.number, url = excluded.url, error = excluded.error,
          ended_at = excluded.ended_at, asked_by = excluded.asked_by, updated_at = excluded.updated_at, version = excluded.version
        WHERE fix_pull_requests.version = excluded.version - 1";
}

pub(crate) fn read(row: &Row) -> Result<FixPullRequest, StoreError> {
    let words = |column| Ok::<_, StoreError>(row.maybe(column, Row::text)?.map(str::to_owned));
    Ok(FixPullRequest {
        analysis: row.parse(0)?,
        repository: row.parse(1)?,
        fingerprint: row.text(2)?.to_owned(),
        state: row.parse(3)?,
        branch: row.text(4)?.to_owned(),
        commit: words(5)?,
        number: row.maybe(6, Row::int)?,
        url: words(7)?,
        error: words(8)?,
        ended_at: row.maybe(9, Row::time)?,
        asked_by: row.json(10)?,
        created_at: row.time(11)?,
        updated_at: row.time(12)?,
        version: row.int(13)?,
    })
}

pub fn of_analysis(db: &mut impl Read, analysis: AnalysisId) -> Result<Option<FixPullRequest>, StoreError> {
    db.row(&OF_ANALYSIS, &[text(analysis)])?.as_ref().map(read).transpose()
}

/// The one of this failure that is there or will be, whosever analysis it is of.
pub fn live(
    db: &mut impl Read,
    repository: RepositoryId,
    fingerprint: &str,
) -> Result<Option<FixPullRequest>, StoreError> {
    db.row(&LIVE, &[text(repository), fingerprint.into()])?.as_ref().map(read).transpose()
}

/// All there were of this failure, the last first.
pub fn of_failure(
    db: &mut impl Read,
    repository: RepositoryId,
    fingerprint: &str,
    limit: i64,
) -> Result<Vec<FixPullRequest>, StoreError> {
    let params = [text(repository), fingerprint.into(), limit.into()];
    db.rows(&OF_FAILURE, &params)?.iter().map(read).collect()
}

pub(crate) fn put(tx: &mut Tx<'_>, it: &FixPullRequest) -> Result<(), StoreError> {
    let params = [
        text(it.analysis),
        text(it.repository),
        it.fingerprint.as_str().into(),
        text(it.state),
        it.branch.as_str().into(),
        it.commit.as_deref().into(),
        it.number.into(),
        it.url.as_deref().into(),
        it.error.as_deref().into(),
        it.ended_at.into(),
        to_json(&it.asked_by)?.into(),
        it.created_at.into(),
        it.updated_at.into(),
        it.version.into(),
    ];
    tx.execute_one(&PUT, &params)
}
