//! Starts and cancels deployments to the stages of a pipeline. Used by API requests and by pushes to a repository.

use std::collections::BTreeSet;

use berth_core::decision::CommandRefusal;
use berth_core::deployment::run;
use berth_core::deployment::stages::{self, UNFINISHED_MAX};
use berth_core::deployment::{
    CancelCause, CancelRequest, Deployment, DeploymentState, GateBypass, StagesDeployment, StagesTarget,
    StartTrigger,
};
use berth_core::event::Actor;
use berth_core::id::{DeploymentId, PipelineId};
use berth_core::name::{CommitId, Reason};
use berth_core::pipeline::state::Pipeline;
use berth_store::Tx;
use berth_store::tables::deployment;

use crate::aggregate::DeploymentAggregate;
use crate::error::EngineError;
use crate::run_cache::RunCache;

pub struct StartRequest {
    pub commit: CommitId,
    pub trigger: StartTrigger,
    pub by: Actor,
    pub reason: Option<Reason>,
    /// The reason for bypassing the gates. `None` if the gates apply.
    pub bypass: Option<Reason>,
}

/// Queues a deployment. A background job then plans and starts it.
pub fn start(
    tx: &mut Tx<'_>,
    pipeline: &Pipeline,
    asked: StartRequest,
) -> Result<StagesDeployment, EngineError> {
    if pipeline.outline.stages.is_empty() {
        let text = format!("the pipeline \"{}\" has no stages to deploy through", pipeline.slug);
        return Err(CommandRefusal::InvalidState(text).into());
    }
    if pipeline.retired_at.is_some() {
        let text =
            "the definition of this pipeline was removed from its repository; no new deployments start";
        return Err(CommandRefusal::InvalidState(text.into()).into());
    }
    let id = DeploymentId::from_parts(tx.now(), tx.entropy()?);
    let line = deployment::list_unfinished_of_pipeline(tx, pipeline.id)?;
    if line.len() >= UNFINISHED_MAX {
        if asked.trigger == StartTrigger::Api {
            let text =
                format!("{UNFINISHED_MAX} deployments of this pipeline have not finished; cancel one first");
            return Err(CommandRefusal::InvalidState(text).into());
        }
        // A push cannot be refused. If too many deployments are unfinished, supersede the queued ones.
        for waiting in
            line.iter().filter(|it| it.status == DeploymentState::Queued && it.target.bypass.is_none())
        {
            let decision = stages::supersede(waiting, id, tx.now());
            tx.commit(decision)?;
        }
    }
    let number = deployment::next_number(tx, pipeline.id)?;
    let bypass = asked.bypass.map(|reason| GateBypass { by: asked.by.clone(), reason });
    let decision = stages::start(Deployment {
        id,
        number,
        pipeline: pipeline.id,
        definition_hash: pipeline.definition_hash.clone(),
        commit: asked.commit,
        resolved_commit: None,
        reason: asked.reason,
        requested_by: asked.by,
        status: DeploymentState::Queued,
        created_at: tx.now(),
        started_at: None,
        finished_at: None,
        target: StagesTarget { trigger: asked.trigger, retried_by: BTreeSet::new(), bypass },
    });
    Ok(tx.commit(decision)?)
}

/// Cancels a deployment. A queued deployment ends immediately; a running one ends once its steps have stopped.
pub fn cancel(
    tx: &mut Tx<'_>,
    plans: &RunCache,
    deployment: &StagesDeployment,
    told: CancelRequest,
) -> Result<(), EngineError> {
    match DeploymentAggregate::load(tx, plans, deployment.id)? {
        Some(mut aggregate) => {
            let decision = run::cancel::cancel(&aggregate.run, &aggregate.plan, &told, tx.now());
            aggregate.apply(tx, decision)
        }
        None if deployment.status.is_final() => Ok(()),
        None => {
            let decision = stages::cancel(deployment, told, tx.now());
            tx.commit(decision)?;
            Ok(())
        }
    }
}

/// Cancels all unfinished deployments of a deleted pipeline.
pub fn cancel_all(
    tx: &mut Tx<'_>,
    plans: &RunCache,
    pipeline: PipelineId,
    by: &Actor,
) -> Result<(), EngineError> {
    for unfinished in deployment::list_unfinished_of_pipeline(tx, pipeline)? {
        let told = CancelRequest { by: by.clone(), cause: CancelCause::PipelineDeleted, reason: None };
        cancel(tx, plans, &unfinished, told)?;
    }
    Ok(())
}
