//! Pull requests with suggested fixes.

use berth_core::analysis::{AnalysisPullRequest, PullRequestState};
use berth_core::id::{AnalysisId, OrgId, RepositoryId};

use super::first_after;
use crate::error::StoreError;
use crate::pagination::FairBatch;
use crate::sql::value::text;
use crate::sql::{TableRow as _, statements, table, word_columns};
use crate::tx::{StoreRead, Tx};

table!(Org AnalysisPullRequest in fix_pull_requests {
    key: [analysis: analysis_id],
    update: [state, branch, commit: commit_id, number, url, error, ended_at, asked_by, updated_at, version],
    insert: [repository: repository_id, fingerprint, created_at],
});
word_columns!(PullRequestState: PullRequestState::ALL);

statements! {
    Org Read OF_ANALYSIS => AnalysisPullRequest::TABLE.select("WHERE org_id = $1 AND analysis_id = $2 {for_update}");
    Org Read LIVE => AnalysisPullRequest::TABLE.select("WHERE org_id = $1 AND repository_id = $2 AND fingerprint = $3
        AND state IN ('opening', 'open', 'pushed') {for_update}");
    Org Read OF_FAILURE => AnalysisPullRequest::TABLE.select(
        "WHERE org_id = $1 AND repository_id = $2 AND fingerprint = $3 ORDER BY updated_at DESC LIMIT $4");
    Org Write PUT => AnalysisPullRequest::TABLE.upsert("WHERE fix_pull_requests.version = excluded.version - 1");
    Instance Read OPENING = "SELECT org_id, analysis_id FROM (SELECT org_id, analysis_id, updated_at,
            ROW_NUMBER() OVER (PARTITION BY org_id ORDER BY updated_at, analysis_id) AS place
          FROM fix_pull_requests WHERE state = 'opening') AS ranked
        WHERE place <= $1 ORDER BY place, updated_at, analysis_id LIMIT $2";
    Instance Read OPEN_AFTER = "SELECT org_id, analysis_id FROM fix_pull_requests
        WHERE state IN ('open', 'pushed') AND analysis_id > $1 ORDER BY analysis_id LIMIT $2";
}

pub fn find_of_analysis(
    db: &mut impl StoreRead,
    analysis: AnalysisId,
) -> Result<Option<AnalysisPullRequest>, StoreError> {
    db.fetch_optional(&OF_ANALYSIS, &[text(analysis)])
}

/// Finds the pull request for this failure that is open or about to be opened, regardless of the analysis it came from.
pub fn find_live(
    db: &mut impl StoreRead,
    repository: RepositoryId,
    fingerprint: &str,
) -> Result<Option<AnalysisPullRequest>, StoreError> {
    db.fetch_optional(&LIVE, &[text(repository), fingerprint.into()])
}

/// All pull requests for this failure, latest first.
pub fn list_of_failure(
    db: &mut impl StoreRead,
    repository: RepositoryId,
    fingerprint: &str,
    limit: i64,
) -> Result<Vec<AnalysisPullRequest>, StoreError> {
    db.fetch_all(&OF_FAILURE, &[text(repository), fingerprint.into(), limit.into()])
}

pub(crate) fn put(tx: &mut Tx<'_>, pull_request: &AnalysisPullRequest) -> Result<(), StoreError> {
    tx.put(&PUT, pull_request)
}

/// Pull requests of all organizations that were open when last checked, ordered by the id of their analysis. Starts
/// after the given analysis.
pub fn list_open_after(
    db: &mut impl StoreRead,
    after: Option<AnalysisId>,
    limit: i64,
) -> Result<Vec<(OrgId, AnalysisId)>, StoreError> {
    db.fetch_all(&OPEN_AFTER, &[first_after(after), limit.into()])
}

/// Pull requests that were not opened yet. Each organization gets a share of the batch.
pub fn list_opening(
    db: &mut impl StoreRead,
    batch: FairBatch,
) -> Result<Vec<(OrgId, AnalysisId)>, StoreError> {
    db.fetch_all(&OPENING, &[batch.share.into(), batch.total.into()])
}
