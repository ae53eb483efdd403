//! Begin: what may start is planned, its plan is pinned, and its first steps become ready.

use std::sync::Arc;

use berth_core::deployment::report::{self, Outcome};
use berth_core::deployment::{Cause, Deployment, Failure, Grant, Work, grant};
use berth_core::environment::Lock;
use berth_core::id::{DeploymentId, EnvironmentId, OrgId, PipelineId};
use berth_core::pipeline::grammar::StageName;
use berth_core::rollout::{self, Rollout};
use berth_core::run::begin::{Begin, Built, begin};
use berth_core::run::{PinnedSecret, Plan, StageKind, secrets_used};
use berth_store::pagination::Batch;
use berth_store::query::runs;
use berth_store::records::{deployment, rollout as rollouts};
use berth_store::tables::plan::{self, Build, BuildKey};
use berth_store::tables::{environment, secret};
use berth_store::{Context, Read, Tx};
use tokio::task::JoinHandle;

use super::beginnings::spawn_beginning;
use super::prepare::{Outlook, Prepared, Wanted, prepare};
use super::whole::{Head, Whole};
use crate::credential::random_base62;
use crate::error::EngineError;
use crate::services::Services;

/// Looked up at once; what is left comes with the next look. An organization may have as many that cannot start yet,
/// because their repository does not answer, before those behind them are not seen.
const BEGIN: Batch = Batch { total: 1_024, share: 256 };
const NONCE_CHARS: usize = 22;

/// Begins deployments in environments that may start, and gives the tasks that do so.
pub async fn begin_startable(services: &Arc<Services>) -> Result<Vec<JoinHandle<()>>, EngineError> {
    let read = services.store.read(None, |db| Ok::<_, EngineError>(environment::startable(db, BEGIN)?));
    let spawned = read.await?.into_iter().filter_map(|(org, place, id)| {
        let here = services.clone();
        spawn_beginning(services, org, id, async move { begin_in(&here, org, place, id).await })
    });
    Ok(spawned.collect())
}

async fn begin_in(
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
    let prepared = match prepare(services, org, Wanted::in_environment(&deployment, &lock)).await? {
        Outlook::Ready(prepared) => Ok(prepared),
        Outlook::Failed(failure) => Err(failure),
        Outlook::Later => return Ok(()),
    };
    let (boot, nonce) = (services.engine.boot().to_owned(), random_base62(NONCE_CHARS));
    let done = services.store.transact(Context::system(Some(org)), move |tx| {
        let Some(lock) = environment::by_id(tx, place)? else { return Ok(false) };
        let build = match &prepared {
            Ok(prepared) => build_of(tx, deployment.pipeline, prepared, &deployment.definition_hash)?,
            Err(_) => Building::none(),
        };
        let Building::Free(built) = build else { return Ok(false) };
        let cmd = Grant { deployment: id, runner: boot, nonce: nonce.clone() };
        let ruling = grant::grant(&lock, &cmd, &tx.moment()?);
        let lock = lock.after(&ruling);
        let Ok(granted) = tx.commit(ruling)? else { return Ok(false) };
        let pinned = match prepared {
            Ok(prepared) => pin(tx, granted.pipeline, prepared)?,
            Err(failure) => Err(failure),
        };
        match pinned {
            Err(failure) => fail_in(tx, &lock, &granted, &nonce, failure)?,
            Ok(prepared) => {
                let definition_hash = granted.definition_hash.clone();
                if let Some(source) = &prepared.plan.source {
                    deployment::resolve(tx, granted.id, &source.commit)?;
                }
                let head = Head::Environment { lock: Box::new(lock), deployment: Box::new(granted) };
                start(tx, prepared, &definition_hash, built, head)?;
            }
        }
        Ok::<_, EngineError>(true)
    });
    if done.await? {
        tracing::info!(deployment = %id, "deployment begun");
        services.engine.ring();
    }
    Ok(())
}

fn fail_in(
    tx: &mut Tx<'_>,
    lock: &Lock,
    granted: &Deployment,
    nonce: &str,
    failure: Failure,
) -> Result<(), EngineError> {
    let outcome = Outcome::Failed(failure);
    let decision = report::report(lock, granted.id, nonce, &outcome, &tx.moment()?);
    tx.commit(decision)?;
    Ok(())
}

/// Begins rollouts, oldest first, and gives the tasks that do so.
pub async fn begin_rollouts(services: &Arc<Services>) -> Result<Vec<JoinHandle<()>>, EngineError> {
    let read = services.store.read(None, |db| Ok::<_, EngineError>(runs::to_plan(db, BEGIN)?));
    let spawned = read.await?.into_iter().filter_map(|(org, id)| {
        let here = services.clone();
        spawn_beginning(services, org, id, async move { begin_rollout(&here, org, id).await })
    });
    Ok(spawned.collect())
}

async fn begin_rollout(services: &Services, org: OrgId, id: DeploymentId) -> Result<(), EngineError> {
    let read = services.store.read(Some(org), move |db| Ok::<_, EngineError>(rollouts::by_id(db, id)?));
    let Some(found) = read.await? else { return Ok(()) };
    if overtaken(services, org, &found).await? {
        return Ok(());
    }
    let prepared = match prepare(services, org, Wanted::of_stages(&found)).await? {
        Outlook::Ready(prepared) => Ok(prepared),
        Outlook::Failed(failure) => Err(failure),
        Outlook::Later => return Ok(()),
    };
    let done = services.store.transact(Context::system(Some(org)), move |tx| {
        let Some(found) = rollouts::by_id(tx, id)? else { return Ok(()) };
        if found.status != rollout::Status::Queued {
            return Ok(());
        }
        let pinned = match prepared {
            Ok(prepared) => pin(tx, found.pipeline, prepared)?,
            Err(failure) => Err(failure),
        };
        let prepared = match pinned {
            Ok(prepared) => prepared,
            Err(failure) => {
                let decision = rollout::fail(&found, failure, tx.now());
                tx.commit(decision)?;
                return Ok(());
            }
        };
        let Building::Free(built) = build_of(tx, found.pipeline, &prepared, &found.definition_hash)? else {
            return Ok(());
        };
        let resolved = prepared.plan.source.as_ref().map(|source| source.commit.clone());
        let decision = rollout::begin(&found, resolved, tx.now());
        let begun = tx.commit(decision)?;
        let definition_hash = begun.definition_hash.clone();
        let head = Head::Stages { rollout: Box::new(begun), is_paused: false };
        start(tx, prepared, &definition_hash, built, head)
    });
    done.await?;
    services.nudge();
    Ok(())
}

/// A newer one that has not begun either takes its place: nothing of this one would be kept for long.
async fn overtaken(services: &Services, org: OrgId, rollout: &Rollout) -> Result<bool, EngineError> {
    let (id, pipeline, number) = (rollout.id, rollout.pipeline, rollout.number);
    let done = services.store.transact(Context::system(Some(org)), move |tx| {
        let line = rollouts::in_line(tx, pipeline)?;
        let newer = line.iter().rfind(|it| it.number > number && it.status == rollout::Status::Queued);
        let found = line.iter().find(|it| it.id == id && it.bypass.is_none());
        let (Some(newer), Some(found)) = (newer, found) else { return Ok(false) };
        let decision = rollout::supersede(found, newer.id, tx.now());
        tx.commit(decision)?;
        Ok::<_, EngineError>(true)
    });
    done.await
}

/// The plan is pinned and the run laid out; what follows at once, follows.
fn start(
    tx: &mut Tx<'_>,
    prepared: Prepared,
    definition_hash: &str,
    built: Option<Built>,
    head: Head,
) -> Result<(), EngineError> {
    let (id, pipeline) = match &head {
        Head::Environment { deployment, .. } => (deployment.id, deployment.pipeline),
        Head::Stages { rollout, .. } => (rollout.id, rollout.pipeline),
    };
    plan::put(tx, id, &prepared.plan)?;
    if built.is_none() && has_build(&prepared.plan) {
        let key = BuildKey { pipeline, commit: &prepared.commit, definition_hash };
        plan::claim_build(tx, key, id)?;
    }
    let decision = begin(&prepared.plan, Begin { deployment: id, pipeline, built }, &tx.moment()?);
    Whole::begin(tx, decision, prepared.plan, head).map(drop)
}

fn has_build(plan: &Plan) -> bool {
    plan.stages.iter().any(|stage| stage.kind == StageKind::Build)
}

enum Building {
    /// By this deployment, or it is done.
    Free(Option<Built>),
    /// Another deployment is at it.
    Underway,
}

impl Building {
    const fn none() -> Self {
        Building::Free(None)
    }
}

fn build_of(
    db: &mut impl Read,
    pipeline: PipelineId,
    prepared: &Prepared,
    definition_hash: &str,
) -> Result<Building, EngineError> {
    if !has_build(&prepared.plan) {
        return Ok(Building::none());
    }
    let key = BuildKey { pipeline, commit: &prepared.commit, definition_hash };
    Ok(match plan::build(db, key)? {
        None => Building::none(),
        Some(Build::Done(built)) => Building::Free(Some(built)),
        Some(Build::Begun(_)) => Building::Underway,
    })
}

/// Every secret the plan names, in the version it has now. One that is missing is told before anything begins.
fn pin(
    db: &mut impl Read,
    pipeline: PipelineId,
    mut prepared: Prepared,
) -> Result<Result<Prepared, Failure>, EngineError> {
    for stage in &mut prepared.plan.stages {
        let place = StageName::parse(&stage.name).ok().filter(|_| stage.kind != StageKind::Build);
        for name in stage.steps.iter().flat_map(secrets_used) {
            let Some(found) = secret::nearest(db, &name, pipeline, place.as_ref())? else {
                let detail = format!(
                    "stage \"{}\" uses the secret {name}, which does not exist; create it and start again",
                    stage.name
                );
                return Ok(Err(Failure { cause: Cause::NotRunnable, detail }));
            };
            stage.secrets.insert(name, PinnedSecret { id: found.id, version: found.version });
        }
    }
    Ok(Ok(prepared))
}

impl Wanted {
    fn in_environment(deployment: &Deployment, lock: &Lock) -> Self {
        let session = match deployment.work {
            Work::Session(id) => lock.session.as_ref().filter(|session| session.id == id),
            Work::Reset => None,
        };
        Self {
            pipeline: deployment.pipeline,
            definition_hash: deployment.definition_hash.clone(),
            commit: deployment.commit.to_string(),
            asked_at: deployment.created_at,
            environment: Some((deployment.stage.clone(), deployment.fence.number())),
            trigger: if deployment.work == Work::Reset { "reset" } else { "session" }.into(),
            branch: None,
            actor: deployment.requested_by.name.clone(),
            session: session
                .map(|it| (it.id, it.holder.name.clone(), it.context.as_ref().map(ToString::to_string))),
        }
    }

    fn of_stages(rollout: &Rollout) -> Self {
        Self {
            pipeline: rollout.pipeline,
            definition_hash: rollout.definition_hash.clone(),
            commit: rollout.commit.to_string(),
            asked_at: rollout.created_at,
            environment: None,
            trigger: rollout.trigger.as_str().into(),
            branch: match &rollout.trigger {
                rollout::Trigger::Push { branch } => Some(branch.clone()),
                rollout::Trigger::Api | rollout::Trigger::Rollback { .. } => None,
            },
            actor: rollout.requested_by.name.clone(),
            session: None,
        }
    }
}
