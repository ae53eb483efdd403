//! Fix pull requests: request and view. `jobs::fix_prs` creates them.

use std::time::Duration;

use berth_api::fix as wire;
use berth_core::access::{Action, permit};
use berth_core::analysis::{Analysis, AnalysisPullRequest, NewAnalysisPullRequest, PullRequestState, pull};
use berth_core::id::OrgId;
use berth_engine::git::BRANCH_PREFIX;
use berth_store::StoreRead;
use berth_store::idempotency::IdempotencyKey;
use berth_store::tables::{analysis, fix_pull_request};

use super::{ApiResponse, App, IdempotentResponse, analyses};
use crate::auth::authorize::AuthorizedCaller;
use crate::error::AppError;
use crate::jobs::fix_prs::check_pull_request;
use crate::wire::actor_to_wire;

/// Number of fingerprint characters used in branch names.
const FINGERPRINT_CHARS: usize = 12;
/// Maximum number of earlier pull requests for the same failure that are read to choose an unused branch name.
const EARLIER_MAX: i64 = 100;
/// How long a request waits for the Git host to report whether the existing pull request was merged or closed.
const END_WAIT_MAX: Duration = Duration::from_secs(10);

impl App {
    /// Returns the pull request of an analysis, or that of another analysis of the same failure.
    pub async fn view_fix_pull_request(
        &self,
        who: &AuthorizedCaller<permit::AnalysisRead>,
        key: String,
    ) -> Result<ApiResponse<wire::FixPullRequest>, AppError> {
        let access = who.access().clone();
        self.read(who, move |db| {
            let found = analyses::find(db, &access, Action::AnalysisRead, &key)?;
            let shown_one =
                find_for_failure(db, &found)?.ok_or_else(|| AppError::not_found("pull request"))?;
            Ok(ApiResponse::ok(to_response(&shown_one)).with_version(shown_one.version))
        })
        .await
    }

    /// Requests a pull request with the fix that an analysis suggests. There is at most one open pull request per
    /// failure and repository; a repeated request returns it until it is merged or closed.
    pub async fn create_fix_pull_request(
        &self,
        who: &AuthorizedCaller<permit::AnalysisRun>,
        key: String,
        once: Option<IdempotencyKey>,
    ) -> Result<IdempotentResponse<wire::FixPullRequest>, AppError> {
        let (org, asked_by) = (who.org(), who.principal().actor());
        self.notice_end(org, key.clone()).await?;
        let asked = self.change(who, once, move |tx, standing| {
            let found = analyses::find(tx, &standing.access, Action::AnalysisRun, &key)?;
            let earlier = fix_pull_request::find_of_analysis(tx, found.id)?;
            let fingerprint = found.output().map(|answer| answer.fingerprint.clone()).unwrap_or_default();
            if let Some(open) = find_live(tx, &found)? {
                return Ok(build_response(&open, &org.to_string()));
            }
            let short: String = fingerprint.chars().take(FINGERPRINT_CHARS).collect();
            let stem = format!("{BRANCH_PREFIX}fix-{short}");
            let all = match found.repository {
                Some(repository) => {
                    fix_pull_request::list_of_failure(tx, repository, &fingerprint, EARLIER_MAX)?
                }
                None => Vec::new(),
            };
            let new = NewAnalysisPullRequest { branch: pull::next_branch(&stem, &all), asked_by };
            let decision = pull::request(&found, earlier.as_ref(), None, new, tx.now())?;
            let asked = tx.commit(decision)?;
            Ok(build_response(&asked, &org.to_string()))
        });
        let asked = asked.await;
        self.jobs.fixes.wake();
        asked
    }

    /// Checks whether the existing pull request has been merged or closed. If the Git host does not respond in time,
    /// the stored state stays unchanged.
    async fn notice_end(&self, org: OrgId, key: String) -> Result<(), AppError> {
        let open = self.services.store.read(Some(org), move |db| {
            let Ok(id) = key.parse() else { return Ok(None) };
            let found = analysis::by_id(db, id)?;
            Ok::<_, AppError>(found.map(|found| find_live(db, &found)).transpose()?.flatten())
        });
        if let Some(open) = open.await? {
            match tokio::time::timeout(END_WAIT_MAX, check_pull_request(&self.jobs.fixes, org, open.analysis))
                .await
            {
                Ok(noticed) => noticed?,
                Err(_) => {
                    tracing::info!(analysis = %open.analysis, "timed out checking the state of a fix pull request");
                }
            }
        }
        Ok(())
    }
}

/// Returns the pull request of an analysis. If there is none, or it has failed or was merged or closed, prefers a live
/// pull request of another analysis of the same failure.
pub(super) fn find_for_failure(
    db: &mut impl StoreRead,
    found: &Analysis,
) -> Result<Option<AnalysisPullRequest>, AppError> {
    let own = fix_pull_request::find_of_analysis(db, found.id)?;
    let is_good = own.as_ref().is_some_and(|own| own.state.is_live());
    let shared = if is_good { None } else { find_live(db, found)? };
    Ok(shared.or(own))
}

/// Returns the live pull request for the same failure, whichever analysis it came from.
fn find_live(db: &mut impl StoreRead, found: &Analysis) -> Result<Option<AnalysisPullRequest>, AppError> {
    match (found.repository, found.output()) {
        (Some(repository), Some(answer)) => {
            Ok(fix_pull_request::find_live(db, repository, &answer.fingerprint)?)
        }
        _ => Ok(None),
    }
}

/// Builds the response. Its status is 202 while the pull request is being created.
fn build_response(it: &AnalysisPullRequest, org: &str) -> ApiResponse<wire::FixPullRequest> {
    let answer = ApiResponse::ok(to_response(it));
    if it.state == PullRequestState::Opening {
        let location = format!("/api/v1/organizations/{org}/analyses/{}/pull-request", it.analysis);
        return ApiResponse { status: 202, location: Some(location), ..answer };
    }
    answer
}

pub(super) fn to_response(it: &AnalysisPullRequest) -> wire::FixPullRequest {
    wire::FixPullRequest {
        analysis_id: it.analysis.to_string(),
        repository_id: it.repository.to_string(),
        state: match it.state {
            PullRequestState::Opening => wire::FixPullRequestState::Opening,
            PullRequestState::Open => wire::FixPullRequestState::Open,
            PullRequestState::Pushed => wire::FixPullRequestState::Pushed,
            PullRequestState::Failed => wire::FixPullRequestState::Failed,
            PullRequestState::Merged => wire::FixPullRequestState::Merged,
            PullRequestState::Closed => wire::FixPullRequestState::Closed,
        },
        branch: it.branch.clone(),
        commit_id: it.commit.clone(),
        number: it.number,
        url: it.url.clone(),
        error: it.error.clone(),
        ended_at: it.ended_at.map(|at| at.to_string()),
        asked_by: actor_to_wire(&it.asked_by),
        created_at: it.created_at.to_string(),
        updated_at: it.updated_at.to_string(),
    }
}
