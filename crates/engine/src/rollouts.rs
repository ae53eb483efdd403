//! Rollouts: deployments through the stages of a pipeline, asked for by people and by new heads alike.

use std::collections::BTreeSet;

use berth_core::decision::Refusal;
use berth_core::deployment::{Cancel, CancelCause};
use berth_core::event::Actor;
use berth_core::id::{DeploymentId, PipelineId};
use berth_core::name::{CommitId, Reason};
use berth_core::pipeline::state::Pipeline;
use berth_core::rollout::{self, Bypass, Rollout, Status, Trigger, UNFINISHED_MAX};
use berth_core::run;
use berth_store::Tx;
use berth_store::records::rollout as rollouts;

use crate::error::EngineError;
use crate::plans::Plans;
use crate::whole::Whole;

pub struct Asked {
    pub commit: CommitId,
    pub trigger: Trigger,
    pub by: Actor,
    pub reason: Option<Reason>,
    /// Why it waits for nobody.
    pub bypass: Option<Reason>,
}

/// It waits to be planned; the background work sees to it.
pub fn start(tx: &mut Tx<'_>, pipeline: &Pipeline, asked: Asked) -> Result<Rollout, EngineError> {
    if pipeline.outline.stages.is_empty() {
        let text = format!("the pipeline \"{}\" has no stages to deploy through", pipeline.slug);
        return Err(Refusal::InvalidState(text).into());
    }
    if pipeline.retired_at.is_some() {
        let text = "the definition of this pipeline is gone from its repository: nothing new starts";
        return Err(Refusal::InvalidState(text.into()).into());
    }
    let id = DeploymentId::from_parts(tx.now(), tx.entropy()?);
    let line = rollouts::in_line(tx, pipeline.id)?;
    if line.len() >= UNFINISHED_MAX {
        if asked.trigger == Trigger::Api {
            let text =
                format!("{UNFINISHED_MAX} deployments of this pipeline have not ended; cancel one first");
            return Err(Refusal::InvalidState(text).into());
        }
        // Nobody could be told no: what has not begun gives way now instead of later.
        for waiting in line.iter().filter(|it| it.status == Status::Queued && it.bypass.is_none()) {
            let decision = rollout::supersede(waiting, id, tx.now());
            tx.commit(decision)?;
        }
    }
    let number = rollouts::next_number(tx, pipeline.id)?;
    let bypass = asked.bypass.map(|reason| Bypass { by: asked.by.clone(), reason });
    let decision = rollout::start(Rollout {
        id,
        number,
        pipeline: pipeline.id,
        definition_hash: pipeline.definition_hash.clone(),
        commit: asked.commit,
        resolved_commit: None,
        trigger: asked.trigger,
        reason: asked.reason,
        requested_by: asked.by,
        retried_by: BTreeSet::new(),
        bypass,
        status: Status::Queued,
        created_at: tx.now(),
        started_at: None,
        finished_at: None,
    });
    Ok(tx.commit(decision)?)
}

/// Told to stop; what has not begun never will.
pub fn cancel(tx: &mut Tx<'_>, plans: &Plans, rollout: &Rollout, told: Cancel) -> Result<(), EngineError> {
    match Whole::load(tx, plans, rollout.id)? {
        Some(mut whole) => {
            let decision = run::cancel::cancel(&whole.run, &whole.plan, &told, tx.now());
            whole.apply(tx, decision)
        }
        None if rollout.status.is_final() => Ok(()),
        None => {
            let decision = rollout::cancel(rollout, told, tx.now());
            tx.commit(decision)?;
            Ok(())
        }
    }
}

/// Their pipeline is gone.
pub fn cancel_all(
    tx: &mut Tx<'_>,
    plans: &Plans,
    pipeline: PipelineId,
    by: &Actor,
) -> Result<(), EngineError> {
    for rollout in rollouts::in_line(tx, pipeline)? {
        let told = Cancel { by: by.clone(), cause: CancelCause::PipelineDeleted, reason: None };
        cancel(tx, plans, &rollout, told)?;
    }
    Ok(())
}
