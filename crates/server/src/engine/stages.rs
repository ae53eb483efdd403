//! What moves between deployments: stages are entered one at a time, and what was told to stop stops.

use berth_core::deployment::report::{self, Outcome};
use berth_core::rollout;
use berth_core::run::enter::{Entry, enter, entry, entry_back, overtaken};
use berth_store::query::runs;
use berth_store::records::{environment, stage as stages};
use berth_store::{Context, Tx};

use super::plans::Plans;
use super::whole::{Head, Whole};
use crate::app::App;
use crate::error::AppError;

/// Looked at in one go. What is left comes with the next look.
const LOOK_MAX: i64 = 1_024;

/// Deployments in environments that were told to stop: their runs are told too. What nothing runs of ends here.
pub(crate) async fn cancel_told(app: &App) -> Result<(), AppError> {
    let read = app.store.read(None, |db| {
        Ok::<_, AppError>((runs::cancelling(db, LOOK_MAX)?, runs::without_run(db, LOOK_MAX)?))
    });
    let (told, without_run) = read.await?;
    for (org, id, _) in told {
        let plans = app.engine.plans().clone();
        let done =
            app.store.transact(Context::system(Some(org)), move |tx| match Whole::load(tx, &plans, id)? {
                Some(mut whole) => whole.follow_cancel(tx),
                None => Ok(()),
            });
        if let Err(error) = done.await {
            tracing::error!(?error, deployment = %id, "a deployment could not be told to stop");
        }
    }
    for (org, id, environment) in without_run {
        let done = app.store.transact(Context::system(Some(org)), move |tx| {
            let Some(lock) = environment::by_id(tx, environment)? else { return Ok(()) };
            let attempt = lock.deployment(id).and_then(|it| it.status.attempt().cloned());
            let Some(attempt) = attempt else { return Ok(()) };
            let decision = report::report(&lock, id, &attempt.nonce, &Outcome::Lost, &tx.moment()?);
            tx.commit(decision)?;
            Ok::<_, AppError>(())
        });
        if let Err(error) = done.await {
            tracing::error!(?error, deployment = %id, "a deployment of an earlier version could not be ended");
        }
    }
    Ok(())
}

/// Rollouts that wait for a stage enter it when it is free; those that a newer one has overtaken end.
pub(crate) async fn enter_stages(app: &App) -> Result<(), AppError> {
    let waiting = app.store.read(None, |db| Ok::<_, AppError>(runs::queued(db, LOOK_MAX)?)).await?;
    for (org, id) in waiting {
        let plans = app.engine.plans().clone();
        let done = app.store.transact(Context::system(Some(org)), move |tx| enter_one(tx, &plans, id)).await;
        match done {
            Ok(true) => app.engine.ring(),
            Ok(false) => {}
            Err(error) => tracing::error!(?error, deployment = %id, "a stage could not be entered"),
        }
    }
    Ok(())
}

/// True: it has moved.
fn enter_one(tx: &mut Tx<'_>, plans: &Plans, id: berth_core::id::DeploymentId) -> Result<bool, AppError> {
    match Whole::load(tx, plans, id)? {
        Some(mut whole) => enter_whole(tx, &mut whole),
        None => Ok(false),
    }
}

/// True: it has moved.
pub(super) fn enter_whole(tx: &mut Tx<'_>, whole: &mut Whole) -> Result<bool, AppError> {
    let Some((index, stage)) = whole.run.queued_for() else { return Ok(false) };
    let Head::Stages { rollout, is_paused: false } = &whole.head else { return Ok(false) };
    let others = runs::contenders(tx, rollout.pipeline, stage, rollout.id)?;
    let is_rollback = rollout.trigger.takes_back().is_some();
    let said = if is_rollback { entry_back(rollout.number, &others) } else { entry(rollout.number, &others) };
    match said {
        Entry::Behind(_) => Ok(false),
        Entry::Free if !is_rollback && stages::by_name(tx, rollout.pipeline, stage)?.pause.is_some() => {
            Ok(false)
        }
        Entry::Free if !whole.plan.stages[index].gates.is_empty() => Ok(false),
        Entry::Free => {
            let decision = enter(&whole.run, &whole.plan, tx.now());
            whole.apply(tx, decision)?;
            Ok(true)
        }
        Entry::SupersededBy(newer) => {
            let head = rollout::supersede(rollout, newer, tx.now());
            let run = overtaken(&whole.run, &whole.plan, tx.now());
            tx.commit(head)?;
            tx.commit(run)?;
            Ok(true)
        }
    }
}
