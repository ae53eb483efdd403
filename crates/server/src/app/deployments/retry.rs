//! Retries a failed stage. A deployment to stages continues; for an environment, a new deployment starts in the same
//! session.

use std::collections::BTreeSet;

use berth_api::deployment as wire;
use berth_core::access::{Action, EffectiveAccess, permit};
use berth_core::decision::CommandRefusal;
use berth_core::deployment::run::retry;
use berth_core::deployment::{
    DeploymentPurpose, DeploymentState, EnvironmentDeployment, StagesDeployment, stages,
};
use berth_core::environment::deploy::{self, RetryCommand};
use berth_core::environment::{LockHolder, NamedSession};
use berth_core::event::Actor;
use berth_core::id::{OrgId, SessionId};
use berth_core::name::CommitId;
use berth_engine::{DeploymentAggregate, LoadedDeployment, RunCache, gates, people_behind};
use berth_store::Tx;
use berth_store::idempotency::IdempotencyKey;
use berth_store::tables::{environment, pipeline, schedule, session};

use super::operate::SINCE_MAX;
use super::{build_response, find, load_full_response, location};
use crate::app::resource_access::{AffectedStages, require_on_all, require_operable, stage_targets};
use crate::app::{ApiResponse, App, IdempotentResponse, RuleOutcome, agents, environments};
use crate::auth::authorize::AuthorizedCaller;
use crate::error::AppError;

impl App {
    pub async fn retry_stage(
        &self,
        who: &AuthorizedCaller<permit::DeploymentsOperate>,
        id: String,
        stage: String,
        from: retry::RetryStart,
        once: Option<IdempotencyKey>,
    ) -> Result<IdempotentResponse<wire::WireDeployment>, AppError> {
        let (org, by, caller) = (who.org(), who.principal().actor(), who.principal().clone());
        let holder = environments::holder(who.principal());
        let (plans, config) = (self.services.engine.run_cache().clone(), self.config.clone());
        let done = self.run_rule(who, once, move |tx, standing| {
            let found = find(tx, &id)?;
            require_operable(tx, &standing.access, &found, AffectedStages::From(&stage))?;
            let agent = agents::admit_deployment(tx, &caller)?;
            let outcome = match found.into_environment() {
                Ok(failed) => retry_in_environment(tx, &plans, org, &failed, &stage, holder)?,
                Err(found) => {
                    retry_in_stages(tx, &plans, &found, &stage, from, &by, &standing.access)?;
                    RuleOutcome::Yes(load_full_response(tx, &plans, found.id, &config)?)
                }
            };
            if matches!(outcome, RuleOutcome::Yes(_)) {
                agents::count_deployment(tx, agent.as_ref())?;
            }
            Ok(outcome)
        });
        let done = done.await;
        self.services.wake_engine();
        done
    }
}

fn retry_in_stages(
    tx: &mut Tx<'_>,
    plans: &RunCache,
    found: &StagesDeployment,
    stage: &str,
    from: retry::RetryStart,
    by: &Actor,
    access: &EffectiveAccess,
) -> Result<(), AppError> {
    let mut aggregate = DeploymentAggregate::load(tx, plans, found.id)?.ok_or(CommandRefusal::NoSuchStage)?;
    // Dry run: if no retry is possible at all, report that error rather than one from the checks below.
    retry::retry(&aggregate.run, &aggregate.plan, stage, from, &BTreeSet::new(), tx.now())?;
    if let LoadedDeployment::Stages { deployment, .. } = &mut aggregate.deployment {
        let since = schedule::find_entered_since(tx, deployment, &aggregate.run.stages, stage, SINCE_MAX)?;
        if let Some(other) = since {
            let text = format!(
                "#{other} has since been deployed to this stage; deploy {} again if that is what you want",
                deployment.commit
            );
            return Err(CommandRefusal::InvalidState(text).into());
        }
        if deployment.target.bypass.is_some()
            && let Some(pipeline) = pipeline::by_id(tx, deployment.pipeline)?
        {
            require_on_all(access, Action::GatesBypass, &stage_targets(&pipeline))?;
        }
        let people = people_behind(tx, by)?;
        let noted = stages::record_retry(deployment, people.into_iter().chain(by.id).collect());
        **deployment = tx.commit(noted)?;
    }
    let asks_again = gates::steps_to_reapprove(tx, &aggregate, stage)?;
    let decision = retry::retry(&aggregate.run, &aggregate.plan, stage, from, &asks_again, tx.now())?;
    Ok(aggregate.apply(tx, decision)?)
}

/// Deploys the same commit again as a new deployment; the failed one stays unchanged. The session of the failed
/// deployment must still be active and held by the caller.
fn retry_in_environment(
    tx: &mut Tx<'_>,
    plans: &RunCache,
    org: OrgId,
    failed: &EnvironmentDeployment,
    stage: &str,
    by: LockHolder,
) -> Result<RuleOutcome<wire::WireDeployment>, AppError> {
    let (session, commit) = check_retryable(tx, plans, failed, stage)?;
    let lock = environment::by_id(tx, failed.target.environment)?;
    let lock = lock.ok_or_else(|| AppError::bug("a deployment without an environment"))?;
    let session = session::by_id(tx, session)?;
    let session = session.ok_or_else(|| AppError::bug("a deployment without its session"))?;
    let named = NamedSession { session: &session, expected: None };
    let cmd = RetryCommand { by, retry_of: failed.id, commit, is_untrusted: failed.target.is_untrusted };
    let ruling = deploy::retry(&lock, &named, &cmd, &tx.moment()?);
    let after = lock.after(&ruling);
    Ok(match tx.commit(ruling)? {
        Ok(started) => {
            let location = Some(location(org, started.id));
            RuleOutcome::Yes(ApiResponse { status: 202, location, ..build_response(&started, &after) })
        }
        Err(CommandRefusal::SessionNotActive(ended)) => {
            let mut problem = environments::session_not_active(&ended);
            let hint = format!(". Claim the environment again and deploy {} there.", cmd.commit);
            problem.detail.push_str(&hint);
            RuleOutcome::No(problem.into())
        }
        Err(refusal) => RuleOutcome::No(environments::refusal_error(refusal, org, &after, tx.now())),
    })
}

/// Returns the session and commit of a deployment that failed in this stage, or an error if the stage cannot be
/// retried.
fn check_retryable(
    tx: &mut Tx<'_>,
    plans: &RunCache,
    failed: &EnvironmentDeployment,
    stage: &str,
) -> Result<(SessionId, CommitId), AppError> {
    let mut commit = failed.commit.clone();
    match DeploymentAggregate::load(tx, plans, failed.id)? {
        Some(aggregate) => {
            retry::retry(
                &aggregate.run,
                &aggregate.plan,
                stage,
                retry::RetryStart::Start,
                &BTreeSet::new(),
                tx.now(),
            )?;
            if let Some(source) = &aggregate.plan.source {
                commit = CommitId::parse(&source.commit)
                    .map_err(|_| AppError::bug("a plan with a commit that has no valid name"))?;
            }
        }
        // No run was created, so the only stage is the one named after the environment.
        None if failed.target.name.as_str() != stage => return Err(CommandRefusal::NoSuchStage.into()),
        None => {}
    }
    if !matches!(failed.status, DeploymentState::Failed(_)) {
        let text = format!(
            "this deployment did not fail: it is {}. Only a failed one can be retried.",
            failed.status.as_str()
        );
        return Err(CommandRefusal::InvalidState(text).into());
    }
    match failed.target.purpose {
        DeploymentPurpose::Session(session) => Ok((session, commit)),
        DeploymentPurpose::Reset => {
            let text = format!(
                "this deployment reset the environment and belongs to no session. Claim the environment and deploy \
                 {commit} there."
            );
            Err(CommandRefusal::InvalidState(text).into())
        }
    }
}
