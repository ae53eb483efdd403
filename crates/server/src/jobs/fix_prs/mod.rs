//! Creates the fix pull requests that users request: one commit on a new branch, and a pull request if the repository
//! is on a supported forge. Berth never merges them.
//!
//! All state is in the database. If the server is killed, it repeats the work at the next start: the commit is
//! deterministic, and an existing branch or pull request is reused.

mod create;
mod evidence;
mod outcomes;

pub(crate) use outcomes::{FixEnds, check_pull_request};

use std::sync::Arc;

use berth_core::analysis::Analysis;
use berth_core::pipeline::state::Pipeline;
use berth_core::repository::Repository;
use berth_engine::admission::AdmissionControl;
use berth_engine::limits::FIXES_AT_ONCE;
use berth_store::StoreRead;
use berth_store::pagination::FairBatch;
use berth_store::tables::fix_pull_request;
use tokio::sync::Notify;

use crate::config::AppConfig;
use crate::error::AppError;
use crate::jobs::pull_requests::find_open_of_deployment;
use crate::worker::{BackgroundJob, TurnResult, wait_for_wakeup};
use berth_engine::Services;

/// Requests read per query: one for each of up to 64 organizations, more than can run at once.
const OPENING: FairBatch = FairBatch { total: 64, share: 1 };

/// Background job that creates fix pull requests.
pub(crate) struct FixPullRequestJob {
    services: Arc<Services>,
    config: Arc<AppConfig>,
    /// Limits each organization to one pull request at a time, so that a hanging forge does not delay other
    /// organizations.
    under_way: AdmissionControl,
    wakeup: Notify,
}

impl FixPullRequestJob {
    pub(crate) fn new(services: Arc<Services>, config: Arc<AppConfig>) -> Self {
        Self {
            services,
            config,
            under_way: AdmissionControl::without_queue(FIXES_AT_ONCE),
            wakeup: Notify::new(),
        }
    }

    /// Wakes the job, because a pull request was requested.
    pub(crate) fn wake(&self) {
        self.wakeup.notify_one();
    }
}

impl BackgroundJob for FixPullRequestJob {
    const NAME: &'static str = "fix pull requests";
    const LANES: usize = FIXES_AT_ONCE.total;

    async fn turn(&self) -> Result<TurnResult, AppError> {
        Ok(if run_next(self).await? { TurnResult::Again } else { TurnResult::Idle })
    }

    async fn wait(&self) {
        wait_for_wakeup(&self.wakeup).await;
    }
}

/// Creates the oldest requested pull request of an organization that has none in progress. Returns `false` if there is
/// none.
async fn run_next(fixes: &FixPullRequestJob) -> Result<bool, AppError> {
    let waiting =
        fixes.services.store.read(None, |db| Ok::<_, AppError>(fix_pull_request::list_opening(db, OPENING)?));
    let mut waiting = waiting.await?.into_iter();
    let free = waiting.find_map(|(org, id)| Some((fixes.under_way.try_enter(org)?, org, id)));
    let Some((_pass, org, id)) = free else { return Ok(false) };
    create::create_pull_request(fixes, org, id).await
}

/// Returns the base branch for a fix: the branch of the pull request in whose environment the deployment failed, or else
/// the one that the pipeline tracks. Branches of forks are in another repository.
fn find_base(
    db: &mut impl StoreRead,
    of: &Analysis,
    pipeline: &Pipeline,
    repository: &Repository,
) -> Result<Option<String>, AppError> {
    let broken_by = find_open_of_deployment(db, of.deployment)?;
    if let Some(found) = broken_by.filter(|it| it.repository == repository.id && !it.seen.is_fork) {
        return Ok(Some(found.seen.head_branch));
    }
    Ok(pipeline.outline.tracks.clone().or_else(|| repository.seen.default_branch.clone()))
}
