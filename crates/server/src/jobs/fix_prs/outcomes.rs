//! Checks whether people have merged or closed fix pull requests.
//!
//! If the repository is hosted on a known forge, the job queries the forge. Otherwise it infers the outcome from the
//! branches: a fix counts as merged if its commit is in the tracked branch, and as closed if its branch was deleted.

use std::sync::Arc;

use berth_core::analysis::pull::{self, PullRequestEnd};
use berth_core::analysis::{AnalysisPullRequest, PullRequestState};
use berth_core::id::{AnalysisId, OrgId};
use berth_core::name::CommitId;
use berth_core::repository::Repository;
use berth_engine::git::{CommitHash, GitError, GitMirror, ResolvedCommit};
use berth_engine::limits::FIXES_AT_ONCE;
use berth_store::tables::{analysis, fix_pull_request, pipeline, repository};
use berth_store::{StoreRead, TxContext};
use tokio::sync::Mutex;

use super::FixPullRequestJob;
use crate::error::AppError;
use crate::integrations::forges::{ForgeError, ForgePullRequestState, client_with, run_on_thread};
use crate::limits::FIX_ENDS_EVERY;
use crate::worker::{BackgroundJob, TurnResult};

/// Number of pull requests checked per turn. The next turn continues after them.
const ROUND_MAX: i64 = 100;

/// Background job that records whether fix pull requests were merged or closed.
pub(crate) struct FixEnds {
    fixes: Arc<FixPullRequestJob>,
    /// The last pull request that the previous turn checked.
    after: Mutex<Option<AnalysisId>>,
}

impl FixEnds {
    pub(crate) fn new(fixes: Arc<FixPullRequestJob>) -> Self {
        Self { fixes, after: Mutex::default() }
    }
}

impl BackgroundJob for FixEnds {
    const NAME: &'static str = "ends of fix pull requests";

    async fn turn(&self) -> Result<TurnResult, AppError> {
        let mut after = self.after.lock().await;
        *after = poll_round(&self.fixes, after.take()).await?;
        Ok(TurnResult::Idle)
    }

    async fn wait(&self) {
        tokio::time::sleep(FIX_ENDS_EVERY).await;
    }
}

/// Checks one batch of pull requests. Returns the last one checked, or `None` to start over.
async fn poll_round(
    fixes: &FixPullRequestJob,
    after: Option<AnalysisId>,
) -> Result<Option<AnalysisId>, AppError> {
    let found = fixes
        .services
        .store
        .read(None, move |db| Ok::<_, AppError>(fix_pull_request::list_open_after(db, after, ROUND_MAX)?))
        .await?;
    let is_full = i64::try_from(found.len()).is_ok_and(|count| count == ROUND_MAX);
    let last = found.last().map(|(_, id)| *id).filter(|_| is_full);
    for some in found.chunks(FIXES_AT_ONCE.total) {
        let looks =
            futures_util::future::join_all(some.iter().map(|(org, id)| check_pull_request(fixes, *org, *id)));
        let Some(looked) = fixes.services.shutdown.run_until_cancelled(looks).await else { break };
        for error in looked.into_iter().filter_map(Result::err) {
            tracing::warn!(?error, "cannot check the state of fix pull requests");
        }
    }
    Ok(last)
}

/// Checks one pull request and records whether it was merged or closed. If the forge is unreachable, a later turn asks
/// again.
pub(crate) async fn check_pull_request(
    fixes: &FixPullRequestJob,
    org: OrgId,
    id: AnalysisId,
) -> Result<(), AppError> {
    let Some(known) = fixes.services.store.read(Some(org), move |db| load_open_fix(db, id)).await? else {
        return Ok(());
    };
    let version = known.it.version;
    let (end, at) = match fetch_state(fixes, org, known).await? {
        Ok(ForgePullRequestState::Open) => return Ok(()),
        Ok(ForgePullRequestState::Merged(at)) => (PullRequestEnd::Merged, at),
        Ok(ForgePullRequestState::Closed(at)) => (PullRequestEnd::Closed, at),
        Err(why) => {
            tracing::info!(%why, analysis = %id, "state of fix pull request unavailable");
            return Ok(());
        }
    };
    let written = fixes.services.store.transact(TxContext::system(Some(org)), move |tx| {
        let now = tx.now();
        let current = fix_pull_request::find_of_analysis(tx, id)?.filter(|it| it.version == version);
        if let Some(decision) = current.and_then(|it| pull::mark_ended(&it, end, at, now)) {
            tx.commit(decision)?;
        }
        Ok::<_, AppError>(())
    });
    written.await
}

struct OpenFix {
    it: AnalysisPullRequest,
    repository: Repository,
    base: Option<String>,
}

fn load_open_fix(db: &mut impl StoreRead, id: AnalysisId) -> Result<Option<OpenFix>, AppError> {
    let is_there =
        |it: &AnalysisPullRequest| matches!(it.state, PullRequestState::Open | PullRequestState::Pushed);
    let Some(it) = fix_pull_request::find_of_analysis(db, id)?.filter(is_there) else { return Ok(None) };
    let Some(repository) = repository::by_id(db, it.repository)? else { return Ok(None) };
    let mut base = None;
    if let Some(found) = analysis::by_id(db, id)?
        && let Some(of) = pipeline::by_id(db, found.pipeline)?
    {
        base = super::find_base(db, &found, &of, &repository)?;
    }
    Ok(Some(OpenFix { it, repository, base }))
}

/// Returns the state of a pull request. The inner `Err` says why the state is unknown.
async fn fetch_state(
    fixes: &FixPullRequestJob,
    org: OrgId,
    known: OpenFix,
) -> Result<Result<ForgePullRequestState, String>, AppError> {
    let credential = match fixes.services.repository_credential(org, &known.repository).await? {
        Ok(credential) => credential,
        Err(why) => return Ok(Err(why)),
    };
    let client = client_with(&fixes.services, &fixes.config.forges, &known.repository, credential.as_ref());
    if let (Some(number), Some(client)) = (known.it.number, client) {
        match run_on_thread(move || client.get(number)).await? {
            // Some forges allow deleting a pull request. In that case the branch determines its state.
            Err(ForgeError::NotFound) => {}
            said => return Ok(said.map_err(|error| error.to_string())),
        }
    }
    let mirror =
        fixes.services.git.mirror(org, known.repository.id).with_partial(known.repository.is_partial);
    let access = fixes.config.git_access();
    let seen = fixes.services.git.run(org, move || {
        let heads = mirror.sync(&known.repository.url, credential.as_ref(), &access)?;
        state_from_branches(&mirror, &known, &heads.branches)
    });
    Ok(seen.await?.map_err(|error| error.to_string()))
}

fn state_from_branches(
    mirror: &GitMirror,
    known: &OpenFix,
    branches: &std::collections::BTreeMap<String, CommitHash>,
) -> Result<ForgePullRequestState, GitError> {
    // The commit may be missing, because a mirror that was created again has only commits that are on a branch.
    let commit = known.it.commit.as_deref().and_then(|text| CommitId::parse(text).ok());
    let commit = commit.map(|commit| mirror.resolve(&commit)).transpose()?;
    let base = known.base.as_ref().and_then(|base| branches.get(base));
    if let (Some(ResolvedCommit::Commit(commit)), Some(base)) = (commit, base)
        && mirror.is_ancestor(&commit, base)?
    {
        return Ok(ForgePullRequestState::Merged(None));
    }
    let is_there = branches.contains_key(&known.it.branch);
    Ok(if is_there { ForgePullRequestState::Open } else { ForgePullRequestState::Closed(None) })
}
