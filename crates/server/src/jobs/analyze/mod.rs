//! Analyzes failed steps: applies the rules, and a model if one is configured, to the log and the exit status.
//!
//! All state is in the database. If the server is killed during an analysis, the next start runs it again.

mod analyzer;
mod files;
mod model;
mod result;

pub(crate) use analyzer::preview;
pub(crate) use result::{EvidenceLines, StoredFindings};

use std::sync::Arc;

use berth_engine::admission::AdmissionControl;
use berth_engine::limits::ANALYSES_AT_ONCE;
use berth_store::TxContext;
use berth_store::pagination::FairBatch;
use berth_store::tables::analysis;
use tokio::sync::Notify;

use crate::error::AppError;
use crate::jobs::pull_requests::update_comment_of_deployment;
use crate::worker::{BackgroundJob, TurnResult, wait_for_wakeup};
use berth_engine::Services;

/// Queued analyses read per query: one for each of up to 64 organizations, more than can run at once.
const QUEUED: FairBatch = FairBatch { total: 64, share: 1 };
/// Maximum number of interrupted analyses that are queued again at startup.
const INTERRUPTED_MAX: i64 = 1_000;

/// Background job that analyzes failed steps.
pub(crate) struct AnalysisJob {
    services: Arc<Services>,
    /// Limits each organization to one analysis at a time, so that many failures in one organization do not delay the
    /// others.
    under_way: AdmissionControl,
    wakeup: Notify,
}

impl AnalysisJob {
    pub(crate) fn new(services: Arc<Services>) -> Self {
        Self { services, under_way: AdmissionControl::without_queue(ANALYSES_AT_ONCE), wakeup: Notify::new() }
    }

    /// Wakes the job, because an analysis was requested.
    pub(crate) fn wake(&self) {
        self.wakeup.notify_one();
    }
}

impl BackgroundJob for AnalysisJob {
    const NAME: &'static str = "analyze failures";
    const LANES: usize = ANALYSES_AT_ONCE.total;

    async fn resume(&self) -> Result<(), AppError> {
        resume(self).await
    }

    async fn turn(&self) -> Result<TurnResult, AppError> {
        Ok(if run_next(self).await? { TurnResult::Again } else { TurnResult::Idle })
    }

    async fn wait(&self) {
        wait_for_wakeup(&self.wakeup).await;
    }
}

/// Queues interrupted analyses again.
async fn resume(analyses: &AnalysisJob) -> Result<(), AppError> {
    let found = analyses
        .services
        .store
        .read(None, |db| Ok::<_, AppError>(analysis::list_running(db, INTERRUPTED_MAX)?))
        .await?;
    for (org, id) in found.into_iter().filter(|(org, _)| !analyses.under_way.has_operation(org)) {
        let done = analyses
            .services
            .store
            .transact(TxContext::system(Some(org)), move |tx| Ok::<_, AppError>(analysis::requeue(tx, id)?));
        done.await?;
    }
    Ok(())
}

/// Runs the oldest queued analysis of an organization that has none running. Returns `false` if there is none.
async fn run_next(analyses: &AnalysisJob) -> Result<bool, AppError> {
    let queued = analyses
        .services
        .store
        .read(None, |db| Ok::<_, AppError>(analysis::list_queued(db, QUEUED)?))
        .await?;
    let mut queued = queued.into_iter();
    let free = queued.find_map(|(org, id)| Some((analyses.under_way.try_enter(org)?, org, id)));
    let Some((_pass, org, id)) = free else { return Ok(false) };
    let begun = analyses.services.store.transact(TxContext::system(Some(org)), move |tx| {
        let now = tx.now();
        let decision = analysis::by_id(tx, id)?.and_then(|found| found.begin(now));
        Ok::<_, AppError>(decision.map(|decision| tx.commit(decision)).transpose()?)
    });
    let Some(begun) = begun.await? else { return Ok(true) };
    let looked = analyzer::analyze_failure(&analyses.services, org, &begun).await;
    let done = analyses.services.store.transact(TxContext::system(Some(org)), move |tx| {
        let Some(found) = analysis::by_id(tx, id)? else { return Ok(()) };
        let decision = match looked {
            Ok(answer) => found.succeed(answer, tx.now())?,
            Err(error) => {
                let AppError::Problem(problem) = error else {
                    tracing::error!(?error, analysis = %id, "analysis failed");
                    let error = "internal error; request another analysis".to_owned();
                    tx.commit(found.fail(error, tx.now())?)?;
                    return Ok(());
                };
                found.fail(problem.detail, tx.now())?
            }
        };
        tx.commit(decision)?;
        update_comment_of_deployment(tx, found.deployment)
    });
    done.await?;
    analyses.services.pull_requests_wanted.notify_one();
    Ok(true)
}
