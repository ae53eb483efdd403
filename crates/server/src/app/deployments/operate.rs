//! Starts and cancels deployments, resolves steps with an unknown outcome, and ends soaks.

use berth_api::deployment as wire;
use berth_core::access::{Action, EffectiveAccess, permit};
use berth_core::decision::CommandRefusal;
use berth_core::deployment::environment::cancel as in_environment;
use berth_core::deployment::run::{OutcomeResolution, cancel, gated_steps, resolve};
use berth_core::deployment::{
    CancelCause, CancelRequest, Deployment, DeploymentPurpose, DeploymentTarget, EnvironmentTarget,
    StartTrigger,
};
use berth_core::event::Actor;
use berth_core::id::StepRunId;
use berth_core::name::{CommitId, Reason};
use berth_engine::stage_deployments::{self, StartRequest};
use berth_engine::{DeploymentAggregate, LoadedDeployment, RunCache};
use berth_store::Tx;
use berth_store::idempotency::IdempotencyKey;
use berth_store::tables::{environment, pipeline, session};

use super::{find, load_full_response, location};
use crate::app::resource_access::{
    AffectedStages, require_on_all, require_on_environment, require_operable, require_readable, stage_targets,
};
use crate::app::{ApiResponse, App, IdempotentResponse, agents, pipelines};
use crate::auth::authorize::AuthorizedCaller;
use crate::error::AppError;

/// A retry or rollback is refused if another deployment has entered the stage since. This is the maximum number of
/// deployments searched for such a deployment.
pub(super) const SINCE_MAX: i64 = 200;

pub struct NewDeployment {
    /// `None` means the head of the tracked branch.
    pub commit: Option<CommitId>,
    /// JSON pointer to the commit in the request body, for errors.
    pub pointer: &'static str,
    pub reason: Option<Reason>,
    /// The reason for bypassing gates; `None` if gates are not bypassed.
    pub bypass: Option<Reason>,
}

/// How a user ends a soak early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SoakEnd {
    Passed,
    Rejected,
}

impl App {
    pub async fn start_deployment(
        &self,
        who: &AuthorizedCaller<permit::StagesDeploy>,
        key: String,
        new: NewDeployment,
        once: Option<IdempotencyKey>,
    ) -> Result<IdempotentResponse<wire::WireDeployment>, AppError> {
        let (org, by, caller) = (who.org(), who.principal().actor(), who.principal().clone());
        let (plans, config) = (self.services.engine.run_cache().clone(), self.config.clone());
        let doubt = self.check_commit_ambiguity(org, &key, new.commit.as_ref(), new.pointer).await?;
        let done = self.change(who, once, move |tx, standing| {
            let found = pipelines::find(tx, &standing.access, Action::PipelinesRead, &key)?;
            // A deployment proceeds from stage to stage, so it takes permission for all of them.
            let stages = stage_targets(&found);
            require_on_all(&standing.access, Action::StagesDeploy, &stages)?;
            if new.bypass.is_some() {
                require_on_all(&standing.access, Action::GatesBypass, &stages)?;
            }
            doubt.map_or(Ok(()), Err)?;
            let head = found.head.as_deref().and_then(|head| CommitId::parse(head).ok());
            let Some(commit) = new.commit.or(head) else {
                let text = "is required: this pipeline has no repository with a tracked branch";
                return Err(AppError::invalid_member("/commitId", text));
            };
            let asked = StartRequest {
                commit,
                trigger: StartTrigger::Api,
                by,
                reason: new.reason,
                bypass: new.bypass,
            };
            let agent = agents::admit_deployment(tx, &caller)?;
            let started = stage_deployments::start(tx, &found, asked)?;
            agents::count_deployment(tx, agent.as_ref())?;
            let answer = load_full_response(tx, &plans, started.id, &config)?;
            Ok(ApiResponse { status: 202, location: Some(location(org, started.id)), ..answer })
        });
        let done = done.await;
        self.services.wake_engine();
        done
    }

    /// Cancels a deployment: pending steps do not start, and running steps are stopped. Idempotent.
    pub async fn cancel_deployment(
        &self,
        who: &AuthorizedCaller<permit::DeploymentsOperate>,
        id: String,
        reason: Option<Reason>,
        once: Option<IdempotencyKey>,
    ) -> Result<IdempotentResponse<wire::WireDeployment>, AppError> {
        self.operate(who, id, once, move |tx, plans, found, by, access| {
            require_operable(tx, access, found, AffectedStages::All)?;
            check_holds_session(tx, access, found, &by)?;
            cancel_all(tx, plans, found, by, reason)
        })
        .await
    }

    /// Cancels a stage, and with it the deployment. Later stages are skipped.
    pub async fn cancel_stage(
        &self,
        who: &AuthorizedCaller<permit::DeploymentsOperate>,
        id: String,
        stage: String,
        reason: Option<Reason>,
        once: Option<IdempotencyKey>,
    ) -> Result<IdempotentResponse<wire::WireDeployment>, AppError> {
        self.operate(who, id, once, move |tx, plans, found, by, access| {
            require_operable(tx, access, found, AffectedStages::One(&stage))?;
            check_holds_session(tx, access, found, &by)?;
            let Some(mut aggregate) = DeploymentAggregate::load(tx, plans, found.id)? else {
                // The deployment has no run, so its stages cannot be cancelled separately. Cancel the whole deployment.
                let is_named = match &found.target {
                    DeploymentTarget::Environment(target) => target.name.as_str() == stage,
                    DeploymentTarget::Stages(_) => pipeline::by_id(tx, found.pipeline)?
                        .is_some_and(|found| found.outline.stages.contains(&stage)),
                };
                return match is_named {
                    true => cancel_all(tx, plans, found, by, reason),
                    false => Err(CommandRefusal::NoSuchStage.into()),
                };
            };
            let told = CancelRequest { by, cause: CancelCause::Requested, reason: reason.clone() };
            let decision = cancel::cancel_stage(&aggregate.run, &aggregate.plan, &stage, &told, tx.now())?;
            match aggregate.deployment {
                // An environment has only one stage, so cancel the whole deployment. This updates the environment's
                // lock first and the run after it.
                LoadedDeployment::Environment { .. } => cancel_all(tx, plans, found, told.by, reason),
                LoadedDeployment::Stages { .. } => Ok(aggregate.apply(tx, decision)?),
            }
        })
        .await
    }

    /// Sets the outcome of a step whose outcome is unknown. The caller has found out what happened.
    pub async fn resolve_step(
        &self,
        who: &AuthorizedCaller<permit::DeploymentsOperate>,
        id: String,
        step: String,
        resolution: OutcomeResolution,
        once: Option<IdempotencyKey>,
    ) -> Result<IdempotentResponse<wire::WireDeployment>, AppError> {
        let caller = who.principal().clone();
        self.operate(who, id, once, move |tx, plans, found, by, access| {
            let (mut aggregate, step) = load_step(tx, plans, found, &step, access)?;
            check_holds_session(tx, access, found, &by)?;
            agents::require_not_stopped(tx, &caller)?;
            let decision = resolve::resolve(&aggregate.run, &aggregate.plan, step, resolution, tx.now())?;
            Ok(aggregate.apply(tx, decision)?)
        })
        .await
    }

    /// Ends a soak before its time is up, as passed or as rejected.
    pub async fn end_soak(
        &self,
        who: &AuthorizedCaller<permit::DeploymentsOperate>,
        id: String,
        step: String,
        end: SoakEnd,
        reason: Option<Reason>,
        once: Option<IdempotencyKey>,
    ) -> Result<IdempotentResponse<wire::WireDeployment>, AppError> {
        let caller = who.principal().clone();
        self.operate(who, id, once, move |tx, plans, found, by, access| {
            let (mut aggregate, step) = load_step(tx, plans, found, &step, access)?;
            check_holds_session(tx, access, found, &by)?;
            agents::require_not_stopped(tx, &caller)?;
            if !aggregate.can_proceed() {
                return Err(CommandRefusal::InvalidState(
                    "this deployment has ended or is being cancelled".into(),
                )
                .into());
            }
            let (run, plan, reason) = (&aggregate.run, &aggregate.plan, reason.as_ref());
            let decision = match end {
                SoakEnd::Passed => gated_steps::end_soak(run, plan, step, reason, tx.now())?,
                SoakEnd::Rejected => gated_steps::reject_soak(run, plan, step, &by.name, reason, tx.now())?,
            };
            Ok(aggregate.apply(tx, decision)?)
        })
        .await
    }

    async fn operate(
        &self,
        who: &AuthorizedCaller<permit::DeploymentsOperate>,
        id: String,
        once: Option<IdempotencyKey>,
        work: impl FnOnce(&mut Tx<'_>, &RunCache, &Deployment, Actor, &EffectiveAccess) -> Result<(), AppError>
        + Send
        + 'static,
    ) -> Result<IdempotentResponse<wire::WireDeployment>, AppError> {
        let by = who.principal().actor();
        let (plans, config) = (self.services.engine.run_cache().clone(), self.config.clone());
        let done = self.change(who, once, move |tx, standing| {
            let found = find(tx, &id)?;
            work(tx, &plans, &found, by, &standing.access)?;
            load_full_response(tx, &plans, found.id, &config)
        });
        let done = done.await;
        self.services.wake_engine();
        done
    }
}

/// Loads the run of a deployment, finds a step by the id in the URL, and checks that the caller may operate its stage.
fn load_step(
    tx: &mut Tx<'_>,
    plans: &RunCache,
    found: &Deployment,
    step: &str,
    access: &EffectiveAccess,
) -> Result<(DeploymentAggregate, StepRunId), AppError> {
    let missing = || AppError::not_found("step");
    require_readable(tx, access, Action::DeploymentsRead, found)?;
    let aggregate = DeploymentAggregate::load(tx, plans, found.id)?.ok_or_else(missing)?;
    let step: StepRunId = step.parse().map_err(|_| missing())?;
    let stage = aggregate.run.steps.iter().find(|it| it.id == step).map(|it| it.stage);
    let stage = stage.ok_or_else(missing)?;
    let stage = aggregate.run.stages.get(stage).map(|it| it.name.as_str()).unwrap_or_default();
    require_operable(tx, access, found, AffectedStages::One(stage))?;
    Ok((aggregate, step))
}

/// Refuses to interfere with a deployment in another holder's session, except for callers who may release it.
fn check_holds_session(
    tx: &mut Tx<'_>,
    access: &EffectiveAccess,
    found: &Deployment,
    by: &Actor,
) -> Result<(), AppError> {
    let DeploymentTarget::Environment(target) = &found.target else { return Ok(()) };
    let others = Action::EnvironmentsReleaseOthers;
    let is_own = found.requested_by.id == by.id && !belongs_to_other_token(tx, target, by)?;
    if is_own || access.may_everywhere(others) {
        return Ok(());
    }
    let lock = environment::by_id(tx, target.environment)?;
    let lock = lock.ok_or_else(|| AppError::bug("a deployment without an environment"))?;
    require_on_environment(tx, access, others, &lock.environment)
}

/// Whether the deployment's session belongs to a session token other than the caller's.
fn belongs_to_other_token(tx: &mut Tx<'_>, target: &EnvironmentTarget, by: &Actor) -> Result<bool, AppError> {
    let DeploymentPurpose::Session(id) = target.purpose else { return Ok(false) };
    let owner = session::by_id(tx, id)?.and_then(|session| session.holder.session_token);
    Ok(owner.is_some_and(|owner| by.token != Some(owner)))
}

fn cancel_all(
    tx: &mut Tx<'_>,
    plans: &RunCache,
    found: &Deployment,
    by: Actor,
    reason: Option<Reason>,
) -> Result<(), AppError> {
    match found.clone().into_environment() {
        Ok(it) => {
            let lock = environment::by_id(tx, it.target.environment)?;
            let lock = lock.ok_or_else(|| AppError::bug("a deployment without an environment"))?;
            let ruling = in_environment::cancel(&lock, &it, by, reason, &tx.moment()?);
            tx.commit(ruling)??;
            match DeploymentAggregate::load(tx, plans, it.id)? {
                Some(mut aggregate) => Ok(aggregate.follow_cancel(tx)?),
                None => Ok(()),
            }
        }
        Err(it) => {
            let told = CancelRequest { by, cause: CancelCause::Requested, reason };
            Ok(stage_deployments::cancel(tx, plans, &it, told)?)
        }
    }
}
