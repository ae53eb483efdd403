//! Pull requests of suggested fixes.

use berth_core::analysis::FixPullRequest;
use berth_core::id::{AnalysisId, RepositoryId};

use crate::error::StoreError;
use crate::sql::statements;
use crate::tx::{Read, Tx};
use crate::value::{Row, text, to_json};

statements! {
    Org Read OF_ANALYSIS = "SELECT analysis_id, repository_id, fingerprint, state, branch, commit_id, number, url, error,
          asked_by, created_at, updated_at, version
        FROM fix_pull_requests WHERE org_id = $1 AND analysis_id = $2 {for_update}";
    Org Read UNFAILED = "SELECT analysis_id, repository_id, fingerprint, state, branch, commit_id, number, url, error,
          asked_by, created_at, updated_at, version
        FROM fix_pull_requests
        WHERE org_id = $1 AND repository_id = $2 AND fingerprint = $3 AND state <> 'failed' {for_update}";
    Org Write PUT = "INSERT INTO fix_pull_requests (org_id, analysis_id, repository_id, fingerprint, state, branch,
          commit_id, number, url, error, asked_by, created_at, updated_at, version)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
        ON CONFLICT (org_id, analysis_id) DO UPDATE SET state = excluded.state, branch = excluded.branch,
          commit_id = excluded.commit_id, number = excluded.number, url = excluded.url, error = excluded.error,
          asked_by = excluded.asked_by, updated_at = excluded.updated_at, version = excluded.version
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
        asked_by: row.json(9)?,
        created_at: row.time(10)?,
        updated_at: row.time(11)?,
        version: row.int(12)?,
    })
}

pub fn of_analysis(db: &mut impl Read, analysis: AnalysisId) -> Result<Option<FixPullRequest>, StoreError> {
    db.row(&OF_ANALYSIS, &[text(analysis)])?.as_ref().map(read).transpose()
}

/// The one of this failure that has not failed, whosever analysis it is of.
pub fn unfailed(
    db: &mut impl Read,
    repository: RepositoryId,
    fingerprint: &str,
) -> Result<Option<FixPullRequest>, StoreError> {
    db.row(&UNFAILED, &[text(repository), fingerprint.into()])?.as_ref().map(read).transpose()
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
        to_json(&it.asked_by)?.into(),
        it.created_at.into(),
        it.updated_at.into(),
        it.version.into(),
    ];
    tx.execute_one(&PUT, &params)
}
