//! Rolls a stage back to the state that an earlier deployment left it in. That deployment pinned all inputs, so the
//! rollback starts in the same transaction that requests it: nothing is planned, resolved or built again.

use berth_core::decision::CommandRefusal;
use berth_core::deployment::run::begin::{BeginRunCommand, BuildResults, begin};
use berth_core::deployment::run::{Plan, Run, StageGate, StagePlan, StageRunStatus, StageType, secrets_used};
use berth_core::deployment::stages::stage::{self, PAST_MAX, PromotionPause, StageEnd};
use berth_core::deployment::stages::{self as transitions, RollBack};
use berth_core::deployment::{StagesDeployment, StartTrigger};
use berth_core::event::Actor;
use berth_core::id::{DeploymentId, PipelineId};
use berth_core::name::Reason;
use berth_core::pipeline::grammar::StepId;
use berth_core::pipeline::state;
use berth_store::tables::{
    approval, deployment, pipeline, plan, retention, run, secret, stage as stage_table, stage_end,
};
use berth_store::{StoreRead, Tx};

use super::aggregate::DeploymentAggregate;
use super::loaded::LoadedDeployment;
use super::stages::enter_stage;
use crate::error::EngineError;

/// A request to roll back a stage.
pub struct RollbackRequest {
    pub pipeline: PipelineId,
    pub stage: String,
    pub rolled_back: DeploymentId,
    /// The deployment to return to. `None` means the last successful one.
    pub to: Option<DeploymentId>,
    pub by: Actor,
    pub reason: Option<Reason>,
}

/// A rollback that has been checked and can be started.
pub struct RollbackPlan {
    asked: RollbackRequest,
    to: StagesDeployment,
    plan: Plan,
    built: Option<BuildResults>,
    is_stopped: bool,
}

impl RollbackPlan {
    /// Finds the deployment to return to, and checks that its secrets and artifacts still exist. If a rollback is
    /// impossible, the error says why.
    pub fn find(db: &mut impl StoreRead, asked: RollbackRequest) -> Result<Self, EngineError> {
        let Some(found) = pipeline::by_id(db, asked.pipeline)? else {
            return Err(CommandRefusal::InvalidState(
                "its pipeline was deleted; no new deployments start".into(),
            )
            .into());
        };
        let is_stopped = matches!(found.status, state::PipelineActivity::Stopped { .. });
        let line = deployment::list_unfinished_of_pipeline(db, asked.pipeline)?;
        let is_same = |it: &&StagesDeployment| {
            it.target.trigger.rollback_of().is_some_and(|(stage, _)| stage == asked.stage)
        };
        if let Some(other) = line.iter().find(is_same) {
            let text = format!(
                "#{} is already rolling this stage back; wait for it, or cancel it first",
                other.number
            );
            return Err(CommandRefusal::InvalidState(text).into());
        }
        let id = find_target(db, &asked)?;
        let found = (deployment::stages_by_id(db, id)?, plan::by_id(db, id)?, run::by_id(db, id)?);
        let (Some(to), Some(plan), Some(run)) = found else {
            return Err(EngineError::bug(format!("{id} succeeded in a stage and is not there")));
        };
        let planned = plan.stages.iter().find(|it| it.kind == StageType::Stage && it.name == asked.stage);
        let planned = planned.ok_or_else(|| EngineError::bug(format!("{id} has no plan for its stage")))?;
        check_secrets(db, &to, planned)?;
        let origin = origin(db, asked.pipeline, &asked.stage, id)?;
        check_artifacts(db, &to, origin)?;
        let gates = remaining_gates(db, &asked, id, planned)?;
        // If the target deployment bypassed its gates, its steps were not approved.
        let is_approved = |step: &StepId| to.target.bypass.is_none() && run.has_succeeded(&asked.stage, step);
        let cut = plan.reduce_to_stage(&asked.stage, gates, is_approved);
        let plan = cut.ok_or_else(|| EngineError::bug(format!("{id} has no plan for its stage")))?;
        Ok(Self { asked, to, plan, built: run.build_results(), is_stopped })
    }

    /// Starts the rollback, and pauses promotion into the stage. The rollback enters the stage immediately if the stage
    /// is free.
    pub fn start(self, tx: &mut Tx<'_>) -> Result<StagesDeployment, EngineError> {
        let Self { asked, to, plan, built, is_stopped } = self;
        let id = DeploymentId::from_parts(tx.now(), tx.entropy()?);
        let number = deployment::next_number(tx, asked.pipeline)?;
        let (by, reason) = (asked.by.clone(), asked.reason.clone());
        let cmd =
            RollBack { id, number, stage: &asked.stage, rolled_back: asked.rolled_back, to: &to, by, reason };
        let decision = transitions::roll_back(cmd, tx.now());
        let queued = tx.commit(decision)?;
        let place = stage_table::by_name(tx, asked.pipeline, &asked.stage)?;
        let pause = PromotionPause { by: asked.by, at: tx.now(), reason: asked.reason, rollback: id };
        tx.commit(stage::pause_promotion(&place, pause))?;
        let decision = transitions::begin(&queued, to.resolved_commit, tx.now());
        let begun = tx.commit(decision)?;
        plan::put(tx, id, &plan)?;
        let decision =
            begin(&plan, BeginRunCommand { deployment: id, pipeline: asked.pipeline, built }, &tx.moment()?);
        let loaded = LoadedDeployment::Stages { deployment: Box::new(begun.clone()), is_paused: is_stopped };
        let mut aggregate = DeploymentAggregate::begin(tx, decision, plan, loaded)?;
        enter_stage(tx, &mut aggregate)?;
        Ok(begun)
    }
}

fn find_target(db: &mut impl StoreRead, asked: &RollbackRequest) -> Result<DeploymentId, EngineError> {
    let Some(named) = asked.to else {
        let past = stage_end::list_of_stage(db, asked.pipeline, &asked.stage, PAST_MAX)?;
        return Ok(stage::rollback_target(asked.rolled_back, &past)?);
    };
    if named == asked.rolled_back {
        let text = "the deployment named in `to` is the one to roll back; name an earlier one";
        return Err(CommandRefusal::InvalidState(text.into()).into());
    }
    match stage_end::find_origin(db, asked.pipeline, &asked.stage, named)? {
        Some(_) => Ok(named),
        None => {
            let text = "the deployment named in `to` has not succeeded in this stage; name one that has";
            Err(CommandRefusal::InvalidState(text.into()).into())
        }
    }
}

/// Checks that the secret versions that the target deployment used still exist.
fn check_secrets(
    db: &mut impl StoreRead,
    to: &StagesDeployment,
    planned: &StagePlan,
) -> Result<(), EngineError> {
    for name in planned.steps.iter().flat_map(secrets_used) {
        let value = match planned.secrets.get(&name) {
            Some(pinned) => secret::load_value(db, pinned.id, pinned.version)?,
            None => None,
        };
        if value.is_none() {
            let text = format!(
                "#{} used the secret {name}, which was deleted since; create it and deploy {} again instead",
                to.number, to.commit
            );
            return Err(CommandRefusal::InvalidState(text).into());
        }
    }
    Ok(())
}

/// Checks that retention has not removed the artifacts of the target deployment.
fn check_artifacts(
    db: &mut impl StoreRead,
    to: &StagesDeployment,
    origin: DeploymentId,
) -> Result<(), EngineError> {
    if retention::has_removed_artifacts(db, to.id)? || retention::has_removed_artifacts(db, origin)? {
        let text = format!(
            "the artifacts of #{} were removed after their retention period; deploy {} again instead",
            to.number, to.commit
        );
        return Err(CommandRefusal::InvalidState(text).into());
    }
    Ok(())
}

/// Returns the gates that apply to the rollback. Time windows never apply. If the target deployment was approved for
/// this stage, no gate applies.
fn remaining_gates(
    db: &mut impl StoreRead,
    asked: &RollbackRequest,
    to: DeploymentId,
    planned: &StagePlan,
) -> Result<Vec<StageGate>, EngineError> {
    let origin = origin(db, asked.pipeline, &asked.stage, to)?;
    if approval::was_approved(db, origin, &asked.stage)? || approval::was_approved(db, to, &asked.stage)? {
        return Ok(Vec::new());
    }
    Ok(planned
        .gates
        .iter()
        .filter(|gate| !matches!(gate, StageGate::Window | StageGate::Open(_)))
        .cloned()
        .collect())
}

/// Returns the deployment that originally brought the plan of `to` into the stage. Differs from `to` if `to` is itself
/// a rollback.
fn origin(
    db: &mut impl StoreRead,
    pipeline: PipelineId,
    stage: &str,
    to: DeploymentId,
) -> Result<DeploymentId, EngineError> {
    Ok(stage_end::find_origin(db, pipeline, stage, to)?.map_or(to, |(origin, _)| origin))
}

/// Returns the digest of an artifact for the rollback `id`. The artifact was stored by the deployment that the rollback
/// returns to, in an earlier stage. Returns `None` if the deployment `id` is not a rollback.
pub(super) fn rollback_artifact(
    db: &mut impl StoreRead,
    id: DeploymentId,
    name: &str,
) -> Result<Option<String>, EngineError> {
    let Some(deployment) = deployment::stages_by_id(db, id)? else { return Ok(None) };
    let StartTrigger::Rollback { stage, to, .. } = &deployment.target.trigger else { return Ok(None) };
    let origin = origin(db, deployment.pipeline, stage, *to)?;
    Ok(run::by_id(db, origin)?.and_then(|run| run.artifact_before(stage, name)))
}

/// Records that a stage of the deployment has succeeded or failed.
pub(super) fn record_stage_end(
    tx: &mut Tx<'_>,
    deployment: &StagesDeployment,
    run: &Run,
    plan: &Plan,
    index: usize,
) -> Result<(), EngineError> {
    let it = &run.stages[index];
    let (origin, of, is_last) = match &deployment.target.trigger {
        StartTrigger::Rollback { to, of, .. } => {
            let found = stage_end::find_origin(tx, deployment.pipeline, &it.name, *to)?;
            let (origin, is_last) = found.unwrap_or((*to, false));
            (origin, Some(*of), is_last)
        }
        StartTrigger::Push { .. } | StartTrigger::Api => (deployment.id, None, index + 1 == run.stages.len()),
    };
    let end = StageEnd {
        pipeline: deployment.pipeline,
        stage: it.name.clone(),
        deployment: deployment.id,
        tries: it.tries,
        is_success: it.status == StageRunStatus::Succeeded,
        at: tx.now(),
        origin,
        rolled_back: of,
        committed_at: plan.source.as_ref().and_then(|source| source.committed_at),
        is_last,
    };
    let place = stage_table::by_name(tx, deployment.pipeline, &it.name)?;
    tx.commit(stage::record_end(&place, end))?;
    Ok(())
}
