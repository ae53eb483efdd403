//! Starts deployments: makes and stores their plans, pins their secrets and marks the first steps as ready.

use std::sync::Arc;

use berth_core::deployment::environment::report::{self, DeploymentOutcome};
use berth_core::deployment::environment::{GrantCommand, grant};
use berth_core::deployment::run::begin::{BeginRunCommand, BuildResults, begin};
use berth_core::deployment::run::{PinnedSecret, Plan, StageType, secrets_used};
use berth_core::deployment::stages;
use berth_core::deployment::{
    DeploymentPurpose, DeploymentState, EnvironmentDeployment, ExecutionFailure, FailureCode,
    StagesDeployment, StartTrigger,
};
use berth_core::environment::Lock;
use berth_core::id::{DeploymentId, EnvironmentId, OrgId, PipelineId};
use berth_core::pipeline::grammar::StageName;
use berth_store::pagination::FairBatch;
use berth_store::tables::deployment;
use berth_store::tables::plan::{self, BuildKey, BuildState};
use berth_store::tables::{commit, environment, schedule, secret};
use berth_store::{StoreRead, Tx, TxContext};
use tokio::task::JoinHandle;

use super::aggregate::DeploymentAggregate;
use super::loaded::LoadedDeployment;
use super::prepare::{DeploymentPlanRequest, PrepareResult, PreparedPlan, prepare};
use super::starts::spawn_start;
use crate::credential::random_base62;
use crate::error::EngineError;
use crate::services::Services;

/// Number of deployments loaded per pass, in total and per organization; the next pass loads the rest. If 256
/// deployments of an organization cannot start, for example because their repository is unreachable, they block its
/// later ones.
const BEGIN: FairBatch = FairBatch { total: 1_024, share: 256 };
const NONCE_CHARS: usize = 22;

/// Spawns a task for each queued deployment to an environment. Each task starts its deployment. Returns the tasks.
pub async fn begin_environment_deployments(
    services: &Arc<Services>,
) -> Result<Vec<JoinHandle<()>>, EngineError> {
    let read = services.store.read(None, |db| Ok::<_, EngineError>(environment::list_startable(db, BEGIN)?));
    let spawned =
        read.await?.into_iter().filter_map(|(org, place, id)| {
            let here = services.clone();
            spawn_start(services, org, id, async move {
                begin_environment_deployment(&here, org, place, id).await
            })
        });
    Ok(spawned.collect())
}

async fn begin_environment_deployment(
    services: &Services,
    org: OrgId,
    place: EnvironmentId,
    id: DeploymentId,
) -> Result<(), EngineError> {
    let read = services.store.read(Some(org), move |db| {
        let found = environment::by_id(db, place)?;
        Ok::<_, EngineError>(found.and_then(|lock| Some((lock.deployment(id)?.clone(), lock))))
    });
    let Some((deployment, lock)) = read.await? else { return Ok(()) };
    let prepared =
        match prepare(services, org, DeploymentPlanRequest::for_environment(&deployment, &lock)).await? {
            PrepareResult::Ready(prepared) => Ok(prepared),
            PrepareResult::Failed(failure) => Err(failure),
            PrepareResult::Later => return Ok(()),
        };
    let (boot, nonce) = (services.engine.boot().to_owned(), random_base62(NONCE_CHARS));
    let done = services.store.transact(TxContext::system(Some(org)), move |tx| {
        let Some(lock) = environment::by_id(tx, place)? else { return Ok(false) };
        let build = match &prepared {
            Ok(prepared) if !deployment.target.is_untrusted => {
                find_build(tx, deployment.pipeline, prepared, &deployment.definition_hash)?
            }
            // The build of a fork's commit is neither shared nor reused.
            Ok(_) | Err(_) => BuildAvailability::none(),
        };
        let BuildAvailability::Free(built) = build else { return Ok(false) };
        let cmd = GrantCommand { deployment: id, runner: boot, nonce: nonce.clone() };
        let ruling = grant::grant(&lock, &cmd, &tx.moment()?);
        let lock = lock.after(&ruling);
        let Ok(granted) = tx.commit(ruling)? else { return Ok(false) };
        let pinned = match prepared {
            // Without pinned secrets, a step that uses one fails when it is granted.
            Ok(prepared) if granted.target.is_untrusted => Ok(prepared),
            Ok(prepared) => pin_secrets(tx, granted.pipeline, prepared)?,
            Err(failure) => Err(failure),
        };
        match pinned {
            Err(failure) => fail_environment_deployment(tx, &lock, &granted, &nonce, failure)?,
            Ok(prepared) => {
                let definition_hash = granted.definition_hash.clone();
                if let Some(source) = &prepared.plan.source {
                    deployment::set_resolved_commit(tx, granted.id, &source.commit)?;
                }
                let loaded =
                    LoadedDeployment::Environment { lock: Box::new(lock), deployment: Box::new(granted) };
                start(tx, prepared, &definition_hash, built, loaded)?;
            }
        }
        Ok::<_, EngineError>(true)
    });
    if done.await? {
        tracing::info!(deployment = %id, "deployment started");
        services.engine.wake_runners();
    }
    Ok(())
}

fn fail_environment_deployment(
    tx: &mut Tx<'_>,
    lock: &Lock,
    granted: &EnvironmentDeployment,
    nonce: &str,
    failure: ExecutionFailure,
) -> Result<(), EngineError> {
    let outcome = DeploymentOutcome::Failed(failure);
    let decision = report::report(lock, granted.id, nonce, &outcome, &tx.moment()?);
    tx.commit(decision)?;
    Ok(())
}

/// Spawns a task for each queued deployment to stages, oldest first. Each task starts its deployment. Returns the
/// tasks.
pub async fn begin_stage_deployments(services: &Arc<Services>) -> Result<Vec<JoinHandle<()>>, EngineError> {
    let read = services.store.read(None, |db| Ok::<_, EngineError>(schedule::list_to_plan(db, BEGIN)?));
    let spawned = read.await?.into_iter().filter_map(|(org, id)| {
        let here = services.clone();
        spawn_start(services, org, id, async move { begin_stage_deployment(&here, org, id).await })
    });
    Ok(spawned.collect())
}

async fn begin_stage_deployment(
    services: &Services,
    org: OrgId,
    id: DeploymentId,
) -> Result<(), EngineError> {
    let read =
        services.store.read(Some(org), move |db| Ok::<_, EngineError>(deployment::stages_by_id(db, id)?));
    let Some(found) = read.await? else { return Ok(()) };
    if supersede_if_newer(services, org, &found).await? {
        return Ok(());
    }
    let prepared = match prepare(services, org, DeploymentPlanRequest::for_stages(&found)).await? {
        PrepareResult::Ready(prepared) => Ok(prepared),
        PrepareResult::Failed(failure) => Err(failure),
        PrepareResult::Later => return Ok(()),
    };
    let done = services.store.transact(TxContext::system(Some(org)), move |tx| {
        let Some(found) = deployment::stages_by_id(tx, id)? else { return Ok(()) };
        if found.status != DeploymentState::Queued {
            return Ok(());
        }
        let pinned = match prepared {
            Ok(prepared) => pin_secrets(tx, found.pipeline, prepared)?,
            Err(failure) => Err(failure),
        };
        let prepared = match pinned {
            Ok(prepared) => prepared,
            Err(failure) => {
                let decision = stages::fail(&found, failure, tx.now());
                tx.commit(decision)?;
                return Ok(());
            }
        };
        let BuildAvailability::Free(built) =
            find_build(tx, found.pipeline, &prepared, &found.definition_hash)?
        else {
            return Ok(());
        };
        let resolved = prepared.plan.source.as_ref().map(|source| source.commit.clone());
        let decision = stages::begin(&found, resolved, tx.now());
        let begun = tx.commit(decision)?;
        let definition_hash = begun.definition_hash.clone();
        let loaded = LoadedDeployment::Stages { deployment: Box::new(begun), is_paused: false };
        start(tx, prepared, &definition_hash, built, loaded)
    });
    done.await?;
    services.wake_engine();
    Ok(())
}

/// Supersedes the deployment if a newer deployment of the same pipeline is queued. Returns whether it was superseded.
async fn supersede_if_newer(
    services: &Services,
    org: OrgId,
    deployment: &StagesDeployment,
) -> Result<bool, EngineError> {
    let (id, pipeline, number) = (deployment.id, deployment.pipeline, deployment.number);
    let done = services.store.transact(TxContext::system(Some(org)), move |tx| {
        let line = deployment::list_unfinished_of_pipeline(tx, pipeline)?;
        let newer = line.iter().rfind(|it| it.number > number && it.status == DeploymentState::Queued);
        let found = line.iter().find(|it| it.id == id && it.target.bypass.is_none());
        let (Some(newer), Some(found)) = (newer, found) else { return Ok(false) };
        let decision = stages::supersede(found, newer.id, tx.now());
        tx.commit(decision)?;
        Ok::<_, EngineError>(true)
    });
    done.await
}

/// Stores the plan, creates the run and applies its immediate consequences.
fn start(
    tx: &mut Tx<'_>,
    prepared: PreparedPlan,
    definition_hash: &str,
    built: Option<BuildResults>,
    loaded: LoadedDeployment,
) -> Result<(), EngineError> {
    let (id, pipeline) = (loaded.id(), loaded.pipeline());
    plan::put(tx, id, &prepared.plan)?;
    if let Some(described) = &prepared.described {
        commit::put(tx, described)?;
    }
    if built.is_none() && has_build(&prepared.plan) && !loaded.is_untrusted() {
        let key = BuildKey { pipeline, commit: &prepared.commit, definition_hash };
        plan::claim_build(tx, key, id)?;
    }
    let decision = begin(&prepared.plan, BeginRunCommand { deployment: id, pipeline, built }, &tx.moment()?);
    DeploymentAggregate::begin(tx, decision, prepared.plan, loaded).map(drop)
}

fn has_build(plan: &Plan) -> bool {
    plan.stages.iter().any(|stage| stage.kind == StageType::Build)
}

enum BuildAvailability {
    /// The deployment may start. It reuses the results of a finished build, or builds the commit itself if there are
    /// none.
    Free(Option<BuildResults>),
    /// Another deployment is currently building the same commit.
    Underway,
}

impl BuildAvailability {
    const fn none() -> Self {
        BuildAvailability::Free(None)
    }
}

fn find_build(
    db: &mut impl StoreRead,
    pipeline: PipelineId,
    prepared: &PreparedPlan,
    definition_hash: &str,
) -> Result<BuildAvailability, EngineError> {
    if !has_build(&prepared.plan) {
        return Ok(BuildAvailability::none());
    }
    let key = BuildKey { pipeline, commit: &prepared.commit, definition_hash };
    Ok(match plan::find_build(db, key)? {
        None => BuildAvailability::none(),
        Some(BuildState::Done(built)) => BuildAvailability::Free(Some(built)),
        Some(BuildState::Begun(_)) => BuildAvailability::Underway,
    })
}

/// Pins the current version of every secret that the plan uses. If a secret is missing, the deployment fails before any
/// step starts.
fn pin_secrets(
    db: &mut impl StoreRead,
    pipeline: PipelineId,
    mut prepared: PreparedPlan,
) -> Result<Result<PreparedPlan, ExecutionFailure>, EngineError> {
    for stage in &mut prepared.plan.stages {
        let place = StageName::parse(&stage.name).ok().filter(|_| stage.kind != StageType::Build);
        for name in stage.steps.iter().flat_map(secrets_used) {
            let Some(found) = secret::resolve_name(db, &name, pipeline, place.as_ref())? else {
                let detail = format!(
                    "stage \"{}\" uses the secret {name}, which does not exist; create it and start again",
                    stage.name
                );
                return Ok(Err(ExecutionFailure { cause: FailureCode::NotRunnable, detail }));
            };
            stage.secrets.insert(name, PinnedSecret { id: found.id, version: found.version });
        }
    }
    Ok(Ok(prepared))
}

impl DeploymentPlanRequest {
    fn for_environment(deployment: &EnvironmentDeployment, lock: &Lock) -> Self {
        let session = match deployment.target.purpose {
            DeploymentPurpose::Session(id) => lock.session.as_ref().filter(|session| session.id == id),
            DeploymentPurpose::Reset => None,
        };
        Self {
            pipeline: deployment.pipeline,
            definition_hash: deployment.definition_hash.clone(),
            commit: deployment.commit.to_string(),
            asked_at: deployment.created_at,
            environment: Some((deployment.target.name.clone(), deployment.target.fence.number())),
            trigger: if deployment.target.purpose == DeploymentPurpose::Reset { "reset" } else { "session" }
                .into(),
            branch: None,
            actor: deployment.requested_by.name.clone(),
            session: session
                .map(|it| (it.id, it.holder.name.clone(), it.context.as_ref().map(ToString::to_string))),
        }
    }

    fn for_stages(deployment: &StagesDeployment) -> Self {
        Self {
            pipeline: deployment.pipeline,
            definition_hash: deployment.definition_hash.clone(),
            commit: deployment.commit.to_string(),
            asked_at: deployment.created_at,
            environment: None,
            trigger: deployment.target.trigger.as_str().into(),
            branch: match &deployment.target.trigger {
                StartTrigger::Push { branch } => Some(branch.clone()),
                StartTrigger::Api | StartTrigger::Rollback { .. } => None,
            },
            actor: deployment.requested_by.name.clone(),
            session: None,
        }
    }
}
