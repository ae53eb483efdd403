//! What moves between deployments: stages are entered one at a time, and what was told to stop stops.

use berth_core::approval::Approval;
use berth_core::deployment::report::{self, Outcome};
use berth_core::id::{DeploymentId, OrgId};
use berth_core::pipeline::model::Requires;
use berth_core::rollout;
use berth_core::run::enter::{Entry, Waits, enter, entry, entry_back, overtaken};
use berth_store::pagination::Batch;
use berth_store::query::runs;
use berth_store::records::stage as stages;
use berth_store::tables::environment;
use berth_store::{Context, Read, Tx};
use futures_util::{StreamExt as _, stream};

use super::authors::{self, Change};
use super::gates::{self, Asked};
use super::plans::Plans;
use super::whole::{Head, Whole};
use crate::error::EngineError;
use crate::services::Services;

/// Looked at in one go. What is left comes with the next look.
const LOOK_MAX: i64 = 1_024;
/// Of those that were told to stop and have not stopped: one organization may have many of them.
const CANCELLING: Batch = Batch { total: LOOK_MAX, share: LOOK_MAX / 4 };
/// And so often before the next look.
const PAGES_MAX: usize = 64;
/// Changes whose authors are read at once.
const READ_AT_ONCE: usize = 16;

/// Deployments in environments that were told to stop: their runs are told too. What nothing runs of ends here.
pub async fn cancel_told(services: &Services) -> Result<(), EngineError> {
    let read = services.store.read(None, |db| {
        Ok::<_, EngineError>((runs::cancelling(db, CANCELLING)?, runs::without_run(db, LOOK_MAX)?))
    });
    let (told, without_run) = read.await?;
    for (org, id, _) in told {
        let plans = services.engine.plans().clone();
        let done = services.store.transact(Context::system(Some(org)), move |tx| {
            match Whole::load(tx, &plans, id)? {
                Some(mut whole) => whole.follow_cancel(tx),
                None => Ok(()),
            }
        });
        if let Err(error) = done.await {
            tracing::error!(?error, deployment = %id, "a deployment could not be told to stop");
        }
    }
    for (org, id, environment) in without_run {
        let done = services.store.transact(Context::system(Some(org)), move |tx| {
            let Some(lock) = environment::by_id(tx, environment)? else { return Ok(()) };
            let attempt = lock.deployment(id).and_then(|it| it.status.attempt().cloned());
            let Some(attempt) = attempt else { return Ok(()) };
            let decision = report::report(&lock, id, &attempt.nonce, &Outcome::Lost, &tx.moment()?);
            tx.commit(decision)?;
            Ok::<_, EngineError>(())
        });
        if let Err(error) = done.await {
            tracing::error!(?error, deployment = %id, "a deployment of an earlier version could not be ended");
        }
    }
    Ok(())
}

/// Rollouts that wait for a stage enter it when it is free; those that a newer one has overtaken end.
pub async fn enter_stages(services: &Services) -> Result<(), EngineError> {
    let mut after = None;
    for _ in 0..PAGES_MAX {
        let from = after;
        let read =
            services.store.read(None, move |db| Ok::<_, EngineError>(runs::queued(db, from, LOOK_MAX)?));
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
        match planned_move(services, org, id).await {
            Ok(Move::Stay) => {}
            Ok(Move::ReadAuthors(change)) => unread.push((org, id, change)),
            Ok(Move::Ask { .. } | Move::Enter | Move::GiveWay(_)) => enter_noted(services, org, id).await,
            Err(error) => tracing::error!(?error, deployment = %id, "a stage could not be entered"),
        }
    }
    let read = |(org, id, change)| async move {
        match authors::read(services, org, change).await {
            Ok(true) => enter_noted(services, org, id).await,
            Ok(false) => {}
            Err(error) => tracing::error!(?error, deployment = %id, "authors of a change could not be read"),
        }
    };
    stream::iter(unread).for_each_concurrent(READ_AT_ONCE, read).await;
}

async fn enter_noted(services: &Services, org: OrgId, id: DeploymentId) {
    let plans = services.engine.plans().clone();
    match services.store.transact(Context::system(Some(org)), move |tx| enter_one(tx, &plans, id)).await {
        Ok(true) => services.engine.ring(),
        Ok(false) => {}
        Err(error) => tracing::error!(?error, deployment = %id, "a stage could not be entered"),
    }
}

/// People and windows may take days: until then a look is enough, and writers are not held up by it.
async fn planned_move(services: &Services, org: OrgId, id: DeploymentId) -> Result<Move, EngineError> {
    let plans = services.engine.plans().clone();
    let looked = services.store.read(Some(org), move |db| match Whole::load(db, &plans, id)? {
        Some(whole) => next_move(db, &whole),
        None => Ok(Move::Stay),
    });
    looked.await
}

enum Move {
    Stay,
    /// People are asked once it is known who wrote the change.
    ReadAuthors(Change),
    Ask {
        rule: Requires,
        before: Option<Box<Approval>>,
    },
    Enter,
    GiveWay(DeploymentId),
}

fn next_move(db: &mut impl Read, whole: &Whole) -> Result<Move, EngineError> {
    let Some((index, stage)) = whole.run.queued_for() else { return Ok(Move::Stay) };
    let Head::Stages { rollout, is_paused: false } = &whole.head else { return Ok(Move::Stay) };
    let others = runs::contenders(db, rollout.pipeline, stage, rollout.id)?;
    let is_rollback = rollout.trigger.takes_back().is_some();
    let (is_kept, passes) = (gates::is_kept(db, whole, stage)?, whole.head.passes_gates());
    let waits = Waits { number: rollout.number, is_kept, passes };
    let said = if is_rollback { entry_back(rollout.number, &others) } else { entry(waits, &others) };
    let passes = is_rollback || passes;
    Ok(match said {
        Entry::Behind(_) => Move::Stay,
        Entry::SupersededBy(newer) => Move::GiveWay(newer),
        Entry::Free if !passes && stages::by_name(db, rollout.pipeline, stage)?.pause.is_some() => Move::Stay,
        Entry::Free => match authors::unread(db, whole, index)? {
            Some(change) => Move::ReadAuthors(change),
            None => match gates::asked(db, whole, index)? {
                Asked::Not { rule, before } => Move::Ask { rule, before },
                Asked::Waits(_) => Move::Stay,
                Asked::Enough if gates::shut_until(whole, index, db.now()).is_some() => Move::Stay,
                Asked::Enough => Move::Enter,
            },
        },
    })
}

/// True: it has moved.
fn enter_one(tx: &mut Tx<'_>, plans: &Plans, id: DeploymentId) -> Result<bool, EngineError> {
    match Whole::load(tx, plans, id)? {
        Some(mut whole) => enter_whole(tx, &mut whole),
        None => Ok(false),
    }
}

/// True: it has moved.
pub(super) fn enter_whole(tx: &mut Tx<'_>, whole: &mut Whole) -> Result<bool, EngineError> {
    match next_move(tx, whole)? {
        Move::Stay | Move::ReadAuthors(_) => return Ok(false),
        Move::Ask { rule, before } => gates::ask(tx, whole, rule, before)?,
        Move::Enter => {
            let decision = enter(&whole.run, &whole.plan, tx.now());
            whole.apply(tx, decision)?;
        }
        Move::GiveWay(newer) => {
            let run = overtaken(&whole.run, &whole.plan, tx.now());
            if let Head::Stages { rollout, .. } = &mut whole.head {
                let head = rollout::supersede(rollout, newer, tx.now());
                **rollout = tx.commit(head)?;
            }
            whole.apply(tx, run)?;
        }
    }
    Ok(true)
}
