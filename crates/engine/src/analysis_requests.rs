//! Requests analyses of failed steps. The server crate performs the analyses.

use berth_core::analysis::{Analysis, NewAnalysis};
use berth_core::deployment::run::{Plan, Run, StepRun, StepRunStatus};
use berth_core::event::Actor;
use berth_core::id::AnalysisId;
use berth_store::Tx;
use berth_store::tables::analysis;

use crate::error::EngineError;
use crate::limits::ANALYSES_WAITING_MAX;

/// Returns the analysis of a failed attempt, or requests one if none exists.
pub fn request(
    tx: &mut Tx<'_>,
    run: &Run,
    plan: &Plan,
    failed: &StepRun,
    asked_by: Actor,
) -> Result<Analysis, EngineError> {
    if let Some(found) = analysis::find_of_attempt(tx, failed.id, failed.tries)? {
        return Ok(found);
    }
    let id = AnalysisId::from_parts(tx.now(), tx.entropy()?);
    let now = tx.now();
    Ok(tx.commit(Analysis::request(new_analysis(id, run, plan, failed, asked_by), now))?)
}

/// Collects the input of an analysis.
pub fn new_analysis(
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

/// Requests analyses of the steps that have just failed, if the pipeline definition enables automatic analysis. Called
/// in the transaction that records the failure.
pub fn note_failures(tx: &mut Tx<'_>, before: &Run, now: &Run, plan: &Plan) -> Result<(), EngineError> {
    if !plan.analyses_failures {
        return Ok(());
    }
    let has_failed = |step: &StepRun| step.status == StepRunStatus::Failed;
    for (was, is) in before.steps.iter().zip(&now.steps) {
        if has_failed(is) && !has_failed(was) {
            request_automatically(tx, now, plan, is)?;
        }
    }
    Ok(())
}

/// Skips the request if too many analyses are pending, because an error here would prevent the failure itself from
/// being recorded.
fn request_automatically(
    tx: &mut Tx<'_>,
    run: &Run,
    plan: &Plan,
    failed: &StepRun,
) -> Result<(), EngineError> {
    if analysis::count_unfinished(tx, ANALYSES_WAITING_MAX)? >= ANALYSES_WAITING_MAX {
        tracing::warn!(deployment = %run.deployment, "too many pending analyses; failure is not analyzed");
        return Ok(());
    }
    request(tx, run, plan, failed, Actor::system()).map(drop)
}
