//! Rollback: a stage gets back what an earlier deployment left there. Everything it needs was pinned then, so it begins
//! in the transaction that asks for it: nothing is planned, resolved or built again.

use berth_core::decision::Refusal;
use berth_core::event::Actor;
use berth_core::id::{DeploymentId, PipelineId};
use berth_core::name::Reason;
use berth_core::pipeline::grammar::StepId;
use berth_core::pipeline::state;
use berth_core::rollout::{self, RollBack, Rollout, Trigger};
use berth_core::run::begin::{Begin, Built, begin};
use berth_core::run::{Gate, Plan, PlannedStage, Run, StageKind, StageStatus, secrets_used};
use berth_core::stage::{self, PAST_MAX, Pause, StageEnd};
use berth_store::records::{rollout as rollouts, run, stage as stages};
use berth_store::tables::{approval, pipeline, plan, retention, secret};
use berth_store::{Read, Tx};

use super::stages::enter_whole;
use super::whole::{Head, Whole};
use crate::error::EngineError;

/// Who wants which stage to go back, and from what.
pub struct Asked {
    pub pipeline: PipelineId,
    pub stage: String,
    pub of: DeploymentId,
    /// `None`: the last good one.
    pub to: Option<DeploymentId>,
    pub by: Actor,
    pub reason: Option<Reason>,
}

/// A way back that was found.
pub struct WayBack {
    asked: Asked,
    to: Rollout,
    plan: Plan,
    built: Option<Built>,
    is_stopped: bool,
}

impl WayBack {
    /// A refusal says why there is none.
    pub fn find(db: &mut impl Read, asked: Asked) -> Result<Self, EngineError> {
        let Some(found) = pipeline::by_id(db, asked.pipeline)? else {
            return Err(Refusal::InvalidState("its pipeline was deleted: nothing new starts".into()).into());
        };
        let is_stopped = matches!(found.status, state::Status::Stopped { .. });
        let line = rollouts::in_line(db, asked.pipeline)?;
        let is_same = |it: &&Rollout| it.trigger.takes_back().is_some_and(|(stage, _)| stage == asked.stage);
        if let Some(other) = line.iter().find(is_same) {
            let text = format!(
                "#{} already goes back in this stage: wait until it has ended, or cancel it first",
                other.number
            );
            return Err(Refusal::InvalidState(text).into());
        }
        let id = target(db, &asked)?;
        let found = (rollouts::by_id(db, id)?, plan::by_id(db, id)?, run::by_id(db, id)?);
        let (Some(to), Some(plan), Some(run)) = found else {
            return Err(EngineError::bug(format!("{id} succeeded in a stage and is not there")));
        };
        let planned = plan.stages.iter().find(|it| it.kind == StageKind::Stage && it.name == asked.stage);
        let planned = planned.ok_or_else(|| EngineError::bug(format!("{id} has no plan for its stage")))?;
        check_secrets(db, &to, planned)?;
        let origin = origin(db, asked.pipeline, &asked.stage, id)?;
        check_artifacts(db, &to, origin)?;
        let gates = gates_left(db, &asked, id, planned)?;
        // Nobody was asked about one that passed every gate.
        let is_approved = |step: &StepId| to.bypass.is_none() && run.has_done(&asked.stage, step);
        let cut = plan.only(&asked.stage, gates, is_approved);
        let plan = cut.ok_or_else(|| EngineError::bug(format!("{id} has no plan for its stage")))?;
        Ok(Self { asked, to, plan, built: run.built(), is_stopped })
    }

    /// It begins, and enters its stage if nothing is inside. Promotion into the stage is paused.
    pub fn start(self, tx: &mut Tx<'_>) -> Result<Rollout, EngineError> {
        let Self { asked, to, plan, built, is_stopped } = self;
        let id = DeploymentId::from_parts(tx.now(), tx.entropy()?);
        let number = rollouts::next_number(tx, asked.pipeline)?;
        let (by, reason) = (asked.by.clone(), asked.reason.clone());
        let cmd = RollBack { id, number, stage: &asked.stage, of: asked.of, to: &to, by, reason };
        let decision = rollout::roll_back(cmd, tx.now());
        let queued = tx.commit(decision)?;
        let place = stages::by_name(tx, asked.pipeline, &asked.stage)?;
        let pause = Pause { by: asked.by, at: tx.now(), reason: asked.reason, rollback: id };
        tx.commit(stage::pause(&place, pause))?;
        let decision = rollout::begin(&queued, to.resolved_commit, tx.now());
        let begun = tx.commit(decision)?;
        plan::put(tx, id, &plan)?;
        let decision = begin(&plan, Begin { deployment: id, pipeline: asked.pipeline, built }, &tx.moment()?);
        let head = Head::Stages { rollout: Box::new(begun.clone()), is_paused: is_stopped };
        let mut whole = Whole::begin(tx, decision, plan, head)?;
        enter_whole(tx, &mut whole)?;
        Ok(begun)
    }
}

fn target(db: &mut impl Read, asked: &Asked) -> Result<DeploymentId, EngineError> {
    let Some(named) = asked.to else {
        let past = stages::past(db, asked.pipeline, &asked.stage, PAST_MAX)?;
        return Ok(stage::way_back(asked.of, &past)?);
    };
    if named == asked.of {
        let text = "the deployment named in `to` is the one that is to be taken back; name an earlier one";
        return Err(Refusal::InvalidState(text.into()).into());
    }
    match stages::origin_of(db, asked.pipeline, &asked.stage, named)? {
        Some(_) => Ok(named),
        None => {
            let text = "the deployment named in `to` has not succeeded in this stage; name one that has";
            Err(Refusal::InvalidState(text.into()).into())
        }
    }
}

/// The very versions that were used then.
fn check_secrets(db: &mut impl Read, to: &Rollout, planned: &PlannedStage) -> Result<(), EngineError> {
    for name in planned.steps.iter().flat_map(secrets_used) {
        let value = match planned.secrets.get(&name) {
            Some(pinned) => secret::value(db, pinned.id, pinned.version)?,
            None => None,
        };
        if value.is_none() {
            let text = format!(
                "#{} used the secret {name}, which was deleted since; create it and deploy {} again instead",
                to.number, to.commit
            );
            return Err(Refusal::InvalidState(text).into());
        }
    }
    Ok(())
}

/// What it would bring back was built long ago, and may be gone.
fn check_artifacts(db: &mut impl Read, to: &Rollout, origin: DeploymentId) -> Result<(), EngineError> {
    if retention::has_given_up(db, to.id)? || retention::has_given_up(db, origin)? {
        let text = format!(
            "the artifacts of #{} were removed because they were old; deploy {} again instead",
            to.number, to.commit
        );
        return Err(Refusal::InvalidState(text).into());
    }
    Ok(())
}

/// What still has to be met before a rollback enters. A window never holds one, and what people approved for this very
/// stage they need not approve again.
fn gates_left(
    db: &mut impl Read,
    asked: &Asked,
    to: DeploymentId,
    planned: &PlannedStage,
) -> Result<Vec<Gate>, EngineError> {
    let origin = origin(db, asked.pipeline, &asked.stage, to)?;
    if approval::was_approved(db, origin, &asked.stage)? || approval::was_approved(db, to, &asked.stage)? {
        return Ok(Vec::new());
    }
    Ok(planned.gates.iter().filter(|gate| !matches!(gate, Gate::Window | Gate::Open(_))).cloned().collect())
}

/// Whose plan a deployment has brought into a stage.
fn origin(
    db: &mut impl Read,
    pipeline: PipelineId,
    stage: &str,
    to: DeploymentId,
) -> Result<DeploymentId, EngineError> {
    Ok(stages::origin_of(db, pipeline, stage, to)?.map_or(to, |(origin, _)| origin))
}

/// What an earlier stage of the deployment that a rollback goes back to has kept under this name. `None` also for what is
/// no rollback.
pub(super) fn kept_then(
    db: &mut impl Read,
    id: DeploymentId,
    name: &str,
) -> Result<Option<String>, EngineError> {
    let Some(rollout) = rollouts::by_id(db, id)? else { return Ok(None) };
    let Trigger::Rollback { stage, to, .. } = &rollout.trigger else { return Ok(None) };
    let origin = origin(db, rollout.pipeline, stage, *to)?;
    Ok(run::by_id(db, origin)?.and_then(|run| run.kept_before(stage, name)))
}

/// A try of a stage has succeeded or failed.
pub(super) fn note_end(
    tx: &mut Tx<'_>,
    rollout: &Rollout,
    run: &Run,
    plan: &Plan,
    index: usize,
) -> Result<(), EngineError> {
    let it = &run.stages[index];
    let (origin, of, is_last) = match &rollout.trigger {
        Trigger::Rollback { to, of, .. } => {
            let found = stages::origin_of(tx, rollout.pipeline, &it.name, *to)?;
            let (origin, is_last) = found.unwrap_or((*to, false));
            (origin, Some(*of), is_last)
        }
        Trigger::Push { .. } | Trigger::Api => (rollout.id, None, index + 1 == run.stages.len()),
    };
    let end = StageEnd {
        pipeline: rollout.pipeline,
        stage: it.name.clone(),
        deployment: rollout.id,
        tries: it.tries,
        is_success: it.status == StageStatus::Succeeded,
        at: tx.now(),
        origin,
        of,
        committed_at: plan.source.as_ref().and_then(|source| source.committed_at),
        is_last,
    };
    let place = stages::by_name(tx, rollout.pipeline, &it.name)?;
    tx.commit(stage::ended(&place, end))?;
    Ok(())
}
