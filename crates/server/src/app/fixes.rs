//! Fix pull requests: asked for here, made by `fixes/`.

use berth_api::fix as wire;
use berth_core::access::permit;
use berth_core::analysis::{Analysis, FixPullRequest, NewPullRequest, PullRequestState, pull};
use berth_store::Read;
use berth_store::idempotency::OnceKey;
use berth_store::records::{analysis, fix_pull_request};

use super::wire::actor;
use super::{Answer, App, Outcome};
use crate::access::Authorized;
use crate::error::AppError;
use crate::git::BRANCH_PREFIX;

/// Of a fingerprint, in the name of a branch.
const FINGERPRINT_CHARS: usize = 12;

impl App {
    /// The pull request of an analysis, or the one that another analysis of the same failure has.
    pub async fn view_fix_pull_request(
        &self,
        who: &Authorized<permit::AnalysisRead>,
        key: String,
    ) -> Result<Answer<wire::FixPullRequest>, AppError> {
        self.read(who, move |db| {
            let missing = || AppError::not_found("analysis");
            let found = analysis::by_id(db, key.parse().map_err(|_| missing())?)?.ok_or_else(missing)?;
            let shown_one = of_failure(db, &found)?.ok_or_else(|| AppError::not_found("pull request"))?;
            Ok(Answer::ok(shown(&shown_one)).at_version(shown_one.version))
        })
        .await
    }

    /// Asks for a pull request of the fix that an analysis suggests. One for each failure of a repository: who asks
    /// again gets the one there is.
    pub async fn create_fix_pull_request(
        &self,
        who: &Authorized<permit::AnalysisRun>,
        key: String,
        once: Option<OnceKey>,
    ) -> Result<Outcome<wire::FixPullRequest>, AppError> {
        let (org, asked_by) = (who.org(), who.principal().actor());
        let asked = self.change(who, once, move |tx, _| {
            let missing = || AppError::not_found("analysis");
            let id = key.parse().map_err(|_| missing())?;
            let found = analysis::by_id(tx, id)?.ok_or_else(missing)?;
            let earlier = fix_pull_request::of_analysis(tx, id)?;
            let fingerprint = found.answer().map(|answer| answer.fingerprint.clone()).unwrap_or_default();
            if let Some(open) = unfailed(tx, &found)? {
                return Ok(answer(&open, &org.to_string()));
            }
            let short: String = fingerprint.chars().take(FINGERPRINT_CHARS).collect();
            let new = NewPullRequest { branch: format!("{BRANCH_PREFIX}fix-{short}"), asked_by };
            let decision = pull::ask(&found, earlier.as_ref(), None, new, tx.now())?;
            let asked = tx.commit(decision)?;
            Ok(answer(&asked, &org.to_string()))
        });
        let asked = asked.await;
        self.fixes.nudge();
        asked
    }
}

/// The one of an analysis, or a better one of another analysis of the same failure.
pub(super) fn of_failure(db: &mut impl Read, found: &Analysis) -> Result<Option<FixPullRequest>, AppError> {
    let own = fix_pull_request::of_analysis(db, found.id)?;
    let is_good = own.as_ref().is_some_and(|own| own.state != PullRequestState::Failed);
    let shared = if is_good { None } else { unfailed(db, found)? };
    Ok(shared.or(own))
}

/// The one of the same failure, whosever analysis it is of.
fn unfailed(db: &mut impl Read, found: &Analysis) -> Result<Option<FixPullRequest>, AppError> {
    match (found.repository, found.answer()) {
        (Some(repository), Some(answer)) => {
            Ok(fix_pull_request::unfailed(db, repository, &answer.fingerprint)?)
        }
        _ => Ok(None),
    }
}

/// 202 as long as it is being made.
fn answer(it: &FixPullRequest, org: &str) -> Answer<wire::FixPullRequest> {
    let answer = Answer::ok(shown(it));
    if it.state == PullRequestState::Opening {
        let location = format!("/api/v1/organizations/{org}/analyses/{}/pull-request", it.analysis);
        return Answer { status: 202, location: Some(location), ..answer };
    }
    answer
}

pub(super) fn shown(it: &FixPullRequest) -> wire::FixPullRequest {
    wire::FixPullRequest {
        analysis_id: it.analysis.to_string(),
        repository_id: it.repository.to_string(),
        state: match it.state {
            PullRequestState::Opening => wire::FixPullRequestState::Opening,
            PullRequestState::Open => wire::FixPullRequestState::Open,
            PullRequestState::Pushed => wire::FixPullRequestState::Pushed,
            PullRequestState::Failed => wire::FixPullRequestState::Failed,
        },
        branch: it.branch.clone(),
        commit_id: it.commit.clone(),
        number: it.number,
        url: it.url.clone(),
        error: it.error.clone(),
        asked_by: actor(&it.asked_by),
        created_at: it.created_at.to_string(),
        updated_at: it.updated_at.to_string(),
    }
}
