//! Why the deployment of a pull request failed, and the fix that Berth proposed for it.

use berth_core::analysis::{Analysis, AnalysisPullRequest, PullRequestState};
use berth_core::deployment::{Deployment, DeploymentPurpose, DeploymentTarget};
use berth_core::forge::{PullRequest, PullRequestStatus};
use berth_core::id::DeploymentId;
use berth_store::pagination::PageStart;
use berth_store::tables::{analysis, deployment, fix_pull_request, pull_request, pull_request_claim};
use berth_store::{StoreRead, Tx};

use super::comment_text::{FailureCause, ProposedFix};
use crate::error::AppError;

/// The newest analysis of a deployment is enough.
const ANALYSES_MAX: i64 = 1;

/// Returns why a deployment failed: the root cause from its analysis if there is one. `page` is the deployment's page in
/// the dashboard.
pub(super) fn load_failure(
    db: &mut impl StoreRead,
    found: &Deployment,
    page: Option<&str>,
) -> Result<Option<FailureCause>, AppError> {
    let Some(failure) = found.status.failure() else { return Ok(None) };
    let newest = find_analysis(db, found.id)?;
    let cause = newest.as_ref().and_then(|it| it.output()?.result.get("rootCause")?.as_str());
    let url = match (&newest, page) {
        (Some(newest), Some(page)) => Some(format!("{page}?step={}&attempt={}", newest.step, newest.attempt)),
        _ => None,
    };
    let fix = match &newest {
        Some(newest) => find_fix(db, newest)?.and_then(|fix| describe_fix(&fix)),
        None => None,
    };
    Ok(Some(FailureCause { text: cause.unwrap_or(&failure.detail).to_owned(), url, fix }))
}

/// Whether the comment about a failed deployment is not complete yet: its analysis or its fix is being made.
pub(super) fn is_failure_pending(db: &mut impl StoreRead, found: &Deployment) -> Result<bool, AppError> {
    if found.status.failure().is_none() {
        return Ok(false);
    }
    let Some(newest) = find_analysis(db, found.id)? else { return Ok(false) };
    let is_opening = |fix: AnalysisPullRequest| fix.state == PullRequestState::Opening;
    Ok(newest.finished_at().is_none() || find_fix(db, &newest)?.is_some_and(is_opening))
}

fn find_analysis(db: &mut impl StoreRead, id: DeploymentId) -> Result<Option<Analysis>, AppError> {
    let page = analysis::list_of_deployment(db, id, &PageStart::Offset(0), ANALYSES_MAX)?;
    Ok(page.items.into_iter().next())
}

/// The fix pull request of an analysis, or the open one of another analysis of the same failure.
fn find_fix(db: &mut impl StoreRead, of: &Analysis) -> Result<Option<AnalysisPullRequest>, AppError> {
    if let Some(own) = fix_pull_request::find_of_analysis(db, of.id)? {
        return Ok(Some(own));
    }
    match (of.repository, of.output()) {
        (Some(repository), Some(output)) => {
            Ok(fix_pull_request::find_live(db, repository, &output.fingerprint)?)
        }
        _ => Ok(None),
    }
}

fn describe_fix(fix: &AnalysisPullRequest) -> Option<ProposedFix> {
    let is_merged = match fix.state {
        PullRequestState::Open => false,
        PullRequestState::Merged => true,
        PullRequestState::Opening
        | PullRequestState::Pushed
        | PullRequestState::Failed
        | PullRequestState::Closed => return None,
    };
    Some(ProposedFix { number: fix.number?, url: fix.url.clone()?, is_merged })
}

/// Finds the open pull request in whose environment a deployment was made.
pub(crate) fn find_open_of_deployment(
    db: &mut impl StoreRead,
    id: DeploymentId,
) -> Result<Option<PullRequest>, AppError> {
    let Some(found) = deployment::by_id(db, id)? else { return Ok(None) };
    let DeploymentTarget::Environment(target) = &found.target else { return Ok(None) };
    let DeploymentPurpose::Session(session) = target.purpose else { return Ok(None) };
    let Some(claim) = pull_request_claim::by_session(db, session)? else { return Ok(None) };
    let found = pull_request::by_number(db, claim.repository, claim.number)?;
    Ok(found.filter(|it| it.seen.status == PullRequestStatus::Open))
}

/// Makes the pull request of a deployment due, because its comment has changed.
pub(crate) fn update_comment_of_deployment(tx: &mut Tx<'_>, id: DeploymentId) -> Result<(), AppError> {
    if let Some(found) = find_open_of_deployment(tx, id)? {
        let now = tx.now();
        pull_request::set_due(tx, found.repository, found.number, now)?;
    }
    Ok(())
}
