//! Moves deployments into stages, one deployment at a time per stage, and propagates cancellations to their runs.

use berth_core::approval::Approval;
use berth_core::deployment::environment::report::{self, DeploymentOutcome};
use berth_core::deployment::run::enter::{
    StageEntry, WaitingDeployment, decide_entry, decide_rollback_entry, end_superseded, enter_queued_stage,
};
use berth_core::deployment::stages as transitions;
use berth_core::id::{DeploymentId, OrgId};
use berth_core::pipeline::model::ApprovalPolicy;
use berth_store::pagination::FairBatch;
use berth_store::tables::{environment, schedule, stage};
use berth_store::{StoreRead, Tx, TxContext};
use futures_util::{StreamExt as _, stream};

use super::aggregate::DeploymentAggregate;
use super::authors::{self, CommitRange};
use super::gates::{self, ApprovalProgress};
use super::loaded::LoadedDeployment;
use super::run_cache::RunCache;
use crate::error::EngineError;
use crate::services::Services;

/// Maximum number of deployments loaded by one query.
const LOOK_MAX: i64 = 1_024;
/// Number of cancelling deployments loaded per pass, in total and per organization; the next pass loads the rest. With
/// the limit per organization, one that has many of them does not delay the others.
const CANCELLING: FairBatch = FairBatch { total: LOOK_MAX, share: LOOK_MAX / 4 };
/// Maximum number of pages per pass.
const PAGES_MAX: usize = 64;
/// Maximum number of changes whose authors are read at the same time.
const READ_AT_ONCE: usize = 16;

/// Cancels the runs of deployments to environments that are being cancelled. Ends such deployments right away if they
/// have no run yet.
pub async fn propagate_cancellations(services: &Services) -> Result<(), EngineError> {
    let read = services.store.read(None, |db| {
        Ok::<_, EngineError>((
            schedule::list_cancelling(db, CANCELLING)?,
            schedule::list_without_run(db, LOOK_MAX)?,
        ))
    });
    let (told, without_run) = read.await?;
    for (org, id, _) in told {
        let plans = services.engine.run_cache().clone();
        let done =
            services.store.transact(TxContext::system(Some(org)), move |tx| match DeploymentAggregate::load(
                tx, &plans, id,
            )? {
                Some(mut aggregate) => aggregate.follow_cancel(tx),
                None => Ok(()),
            });
        if let Err(error) = done.await {
            tracing::error!(?error, deployment = %id, "cancelling a deployment failed");
        }
    }
    for (org, id, environment) in without_run {
        let done = services.store.transact(TxContext::system(Some(org)), move |tx| {
            let Some(lock) = environment::by_id(tx, environment)? else { return Ok(()) };
            let attempt = lock.deployment(id).and_then(|it| it.attempt().cloned());
            let Some(attempt) = attempt else { return Ok(()) };
            let decision = report::report(&lock, id, &attempt.nonce, &DeploymentOutcome::Lost, &tx.moment()?);
            tx.commit(decision)?;
            Ok::<_, EngineError>(())
        });
        if let Err(error) = done.await {
            tracing::error!(?error, deployment = %id, "ending a deployment of an earlier version failed");
        }
    }
    Ok(())
}

/// Moves waiting deployments into free stages and ends superseded deployments.
pub async fn enter_stages(services: &Services) -> Result<(), EngineError> {
    let mut after = None;
    for _ in 0..PAGES_MAX {
        let from = after;
        let read = services
            .store
            .read(None, move |db| Ok::<_, EngineError>(schedule::list_queued(db, from, LOOK_MAX)?));
        let page = read.await?;
        after = page.last().map(|(_, id, at)| (*at, *id));
        let is_last = page.len() < usize::try_from(LOOK_MAX).unwrap_or(usize::MAX);
        enter_each(services, page.into_iter().map(|(org, id, _)| (org, id))).await;
        if is_last {
            break;
        }
    }
    Ok(())
}

async fn enter_each(services: &Services, waiting: impl Iterator<Item = (OrgId, DeploymentId)>) {
    let mut unread = Vec::new();
    for (org, id) in waiting {
        match plan_move(services, org, id).await {
            Ok(StageMove::Stay) => {}
            Ok(StageMove::ReadAuthors(change)) => unread.push((org, id, change)),
            Ok(StageMove::Ask { .. } | StageMove::Enter | StageMove::GiveWay(_)) => {
                enter_and_log(services, org, id).await;
            }
            Err(error) => tracing::error!(?error, deployment = %id, "entering a stage failed"),
        }
    }
    let read = |(org, id, change)| async move {
        match authors::read_authors(services, org, change).await {
            Ok(true) => enter_and_log(services, org, id).await,
            Ok(false) => {}
            Err(error) => tracing::error!(?error, deployment = %id, "reading the authors of a change failed"),
        }
    };
    stream::iter(unread).for_each_concurrent(READ_AT_ONCE, read).await;
}

async fn enter_and_log(services: &Services, org: OrgId, id: DeploymentId) {
    let plans = services.engine.run_cache().clone();
    match services.store.transact(TxContext::system(Some(org)), move |tx| enter_one(tx, &plans, id)).await {
        Ok(true) => services.engine.wake_runners(),
        Ok(false) => {}
        Err(error) => tracing::error!(?error, deployment = %id, "entering a stage failed"),
    }
}

/// Determines a deployment's next move in a read transaction. A deployment may wait days for an approval or a time
/// window, and checking on it in every pass must not block writers.
async fn plan_move(services: &Services, org: OrgId, id: DeploymentId) -> Result<StageMove, EngineError> {
    let plans = services.engine.run_cache().clone();
    let looked = services.store.read(Some(org), move |db| match DeploymentAggregate::load(db, &plans, id)? {
        Some(aggregate) => next_move(db, &aggregate),
        None => Ok(StageMove::Stay),
    });
    looked.await
}

enum StageMove {
    Stay,
    /// The authors of the change have to be read before approval can be requested.
    ReadAuthors(CommitRange),
    Ask {
        rule: ApprovalPolicy,
        before: Option<Box<Approval>>,
    },
    Enter,
    GiveWay(DeploymentId),
}

fn next_move(db: &mut impl StoreRead, aggregate: &DeploymentAggregate) -> Result<StageMove, EngineError> {
    let Some((index, stage)) = aggregate.run.queued_for() else { return Ok(StageMove::Stay) };
    let LoadedDeployment::Stages { deployment, is_paused: false } = &aggregate.deployment else {
        return Ok(StageMove::Stay);
    };
    let others = schedule::list_contenders(db, deployment.pipeline, stage, deployment.id)?;
    let is_rollback = deployment.target.trigger.rollback_of().is_some();
    let (is_kept, passes) = (gates::is_protected(db, aggregate, stage)?, aggregate.deployment.has_bypass());
    let waits = WaitingDeployment { number: deployment.number, is_protected: is_kept, has_bypass: passes };
    let said = if is_rollback {
        decide_rollback_entry(deployment.number, &others)
    } else {
        decide_entry(waits, &others)
    };
    let passes = is_rollback || passes;
    Ok(match said {
        StageEntry::Behind(_) => StageMove::Stay,
        StageEntry::SupersededBy(newer) => StageMove::GiveWay(newer),
        StageEntry::Free if !passes && stage::by_name(db, deployment.pipeline, stage)?.pause.is_some() => {
            StageMove::Stay
        }
        StageEntry::Free => match authors::unread_range(db, aggregate, index)? {
            Some(change) => StageMove::ReadAuthors(change),
            None => match gates::approval_progress(db, aggregate, index)? {
                ApprovalProgress::Missing { rule, before } => StageMove::Ask { rule, before },
                ApprovalProgress::Pending(_) => StageMove::Stay,
                ApprovalProgress::Satisfied if gates::closed_until(aggregate, index, db.now()).is_some() => {
                    StageMove::Stay
                }
                ApprovalProgress::Satisfied => StageMove::Enter,
            },
        },
    })
}

/// Moves a deployment into its next stage. Returns true if the deployment has moved.
fn enter_one(tx: &mut Tx<'_>, plans: &RunCache, id: DeploymentId) -> Result<bool, EngineError> {
    match DeploymentAggregate::load(tx, plans, id)? {
        Some(mut aggregate) => enter_stage(tx, &mut aggregate),
        None => Ok(false),
    }
}

/// Moves a loaded deployment into its next stage. Returns true if the deployment has moved.
pub(super) fn enter_stage(tx: &mut Tx<'_>, aggregate: &mut DeploymentAggregate) -> Result<bool, EngineError> {
    match next_move(tx, aggregate)? {
        StageMove::Stay | StageMove::ReadAuthors(_) => return Ok(false),
        StageMove::Ask { rule, before } => gates::request_approval(tx, aggregate, rule, before)?,
        StageMove::Enter => {
            let decision = enter_queued_stage(&aggregate.run, &aggregate.plan, tx.now());
            aggregate.apply(tx, decision)?;
        }
        StageMove::GiveWay(newer) => {
            let run = end_superseded(&aggregate.run, &aggregate.plan, tx.now());
            if let LoadedDeployment::Stages { deployment, .. } = &mut aggregate.deployment {
                let superseded = transitions::supersede(deployment, newer, tx.now());
                **deployment = tx.commit(superseded)?;
            }
            aggregate.apply(tx, run)?;
        }
    }
    Ok(true)
}
