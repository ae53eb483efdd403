//! Failures are looked into: what the step printed and how it ended goes through the rules, and what they find is kept.
//!
//! What is so stands in the store. A server that is killed in the middle of an analysis begins it again.

mod files;
mod look;
mod model;
mod result;

pub(crate) use look::preview;
pub(crate) use result::{Found, Lines};

use std::sync::Arc;
use std::time::Duration;

use berth_core::analysis::{Analysis, NewAnalysis};
use berth_core::event::Actor;
use berth_core::id::AnalysisId;
use berth_core::run::{Plan, Run, StepRun, StepStatus};
use berth_store::query::{Batch, analyses as listed};
use berth_store::records::analysis;
use berth_store::{Context, Tx};
use tokio::sync::Notify;

use crate::app::App;
use crate::error::AppError;
use crate::gate::Gate;
use crate::limits::{ANALYSES_AT_ONCE, ANALYSES_WAITING_MAX};

const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Looked up at once: one of each organization, of more organizations than are worked for at once.
const QUEUED: Batch = Batch { total: 64, share: 1 };
/// Analyses in one turn of the crank.
const TURN_MAX: usize = 1_000;
/// Interrupted ones taken up in one go.
const INTERRUPTED_MAX: i64 = 1_000;

/// What is known about analyses in this process.
pub(crate) struct Analyses {
    /// One at a time for each organization: one with many failures holds up no other one.
    under_way: Gate,
    asked: Notify,
}

impl Default for Analyses {
    fn default() -> Self {
        Self { under_way: Gate::without_queue(ANALYSES_AT_ONCE), asked: Notify::new() }
    }
}

impl Analyses {
    /// Somebody has asked for one.
    pub(crate) fn nudge(&self) {
        self.asked.notify_one();
    }
}

/// An analysis of a step that has failed: the one there is, or a new one.
pub(crate) fn request(
    tx: &mut Tx<'_>,
    run: &Run,
    plan: &Plan,
    failed: &StepRun,
    asked_by: Actor,
) -> Result<Analysis, AppError> {
    if let Some(found) = analysis::of_attempt(tx, failed.id, failed.tries)? {
        return Ok(found);
    }
    let id = AnalysisId::from_parts(tx.now(), tx.entropy()?);
    let now = tx.now();
    Ok(tx.commit(Analysis::request(wanted(id, run, plan, failed, asked_by), now))?)
}

/// What is to be looked into.
pub(crate) fn wanted(
    id: AnalysisId,
    run: &Run,
    plan: &Plan,
    failed: &StepRun,
    asked_by: Actor,
) -> NewAnalysis {
    NewAnalysis {
        id,
        deployment: run.deployment,
        pipeline: run.pipeline,
        stage: run.stages.get(failed.stage).map(|stage| stage.name.clone()).unwrap_or_default(),
        step: failed.id,
        step_name: failed.step.clone(),
        attempt: failed.tries,
        repository: plan.source.as_ref().map(|source| source.repository),
        commit: plan.source.as_ref().map(|source| source.commit.clone()),
        asked_by,
    }
}

/// Steps that have just failed are looked into, if the definition wants that, in the transaction of the failure itself.
pub(crate) fn note_failures(tx: &mut Tx<'_>, before: &Run, now: &Run, plan: &Plan) -> Result<(), AppError> {
    if !plan.analyses_failures {
        return Ok(());
    }
    let has_failed = |step: &StepRun| step.status == StepStatus::Failed;
    for (was, is) in before.steps.iter().zip(&now.steps) {
        if has_failed(is) && !has_failed(was) {
            request_unasked(tx, now, plan, is)?;
        }
    }
    Ok(())
}

/// Too many are no reason that a failure is not written down.
fn request_unasked(tx: &mut Tx<'_>, run: &Run, plan: &Plan, failed: &StepRun) -> Result<(), AppError> {
    if listed::unfinished(tx, ANALYSES_WAITING_MAX)? >= ANALYSES_WAITING_MAX {
        tracing::warn!(deployment = %run.deployment, "too many analyses wait; this failure is not looked into");
        return Ok(());
    }
    request(tx, run, plan, failed, Actor::system()).map(drop)
}

/// Lanes beside one another, until the server stops.
pub(crate) async fn analyses(app: Arc<App>) {
    while let Err(error) = resume(&app).await {
        tracing::warn!(?error, "interrupted analyses could not be taken up; it is tried again in a second");
        if app.shutdown.run_until_cancelled(tokio::time::sleep(LOOK_EVERY)).await.is_none() {
            return;
        }
    }
    futures_util::future::join_all((0..ANALYSES_AT_ONCE.total).map(|_| lane(&app))).await;
}

async fn lane(app: &App) {
    while !app.shutdown.is_cancelled() {
        match next(app).await {
            Ok(true) => continue,
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(?error, "a failure could not be looked into; it is tried again in a second");
            }
        }
        let nudged = tokio::time::timeout(LOOK_EVERY, app.analyses.asked.notified());
        app.shutdown.run_until_cancelled(nudged).await;
    }
}

/// Everything that waits.
pub(crate) async fn all(app: &App) -> Result<(), AppError> {
    resume(app).await?;
    for _ in 0..TURN_MAX {
        if !next(app).await? {
            break;
        }
    }
    Ok(())
}

/// Analyses that nobody works on any more wait again.
async fn resume(app: &App) -> Result<(), AppError> {
    let found = app.store.read(None, |db| Ok::<_, AppError>(listed::running(db, INTERRUPTED_MAX)?)).await?;
    for (org, id) in found.into_iter().filter(|(org, _)| !app.analyses.under_way.has(org)) {
        let done = app
            .store
            .transact(Context::system(Some(org)), move |tx| Ok::<_, AppError>(analysis::requeue(tx, id)?));
        done.await?;
    }
    Ok(())
}

/// Works on the analysis that has waited for longest, of an organization of which none is under way. `false`: there is
/// none.
async fn next(app: &App) -> Result<bool, AppError> {
    let queued = app.store.read(None, |db| Ok::<_, AppError>(listed::queued(db, QUEUED)?)).await?;
    let mut queued = queued.into_iter();
    let free = queued.find_map(|(org, id)| Some((app.analyses.under_way.try_enter(org)?, org, id)));
    let Some((_pass, org, id)) = free else { return Ok(false) };
    let begun = app.store.transact(Context::system(Some(org)), move |tx| {
        let now = tx.now();
        let decision = analysis::by_id(tx, id)?.and_then(|found| found.begin(now));
        Ok::<_, AppError>(decision.map(|decision| tx.commit(decision)).transpose()?)
    });
    let Some(begun) = begun.await? else { return Ok(true) };
    let looked = look::look(app, org, &begun).await;
    let done = app.store.transact(Context::system(Some(org)), move |tx| {
        let Some(found) = analysis::by_id(tx, id)? else { return Ok(()) };
        let decision = match looked {
            Ok(answer) => found.succeed(answer, tx.now())?,
            Err(error) => {
                let AppError::Problem(problem) = error else {
                    tracing::error!(?error, analysis = %id, "an analysis broke");
                    let error = "something broke on our side; ask for another analysis".to_owned();
                    tx.commit(found.fail(error, tx.now())?)?;
                    return Ok(());
                };
                found.fail(problem.detail, tx.now())?
            }
        };
        tx.commit(decision)?;
        Ok::<_, AppError>(())
    });
    done.await?;
    Ok(true)
}
