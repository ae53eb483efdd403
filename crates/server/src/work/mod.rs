//! Background work: reconcilers that take no input, do what is due, and are safe to run twice.
//!
//! What is so stands in the store. The loops here only decide when to look: on a nudge, and at least every second.

mod attempt;
mod backoff;
mod dummy;
mod execute;
mod expire;
mod plan;
mod reap;
mod renew;
mod report;
mod runner;
mod start;
mod stop;
mod sweep;
mod sync;

pub(crate) use runner::Runner;
pub use sweep::sweep;
pub(crate) use sync::Syncs;

use std::sync::Arc;
use std::time::Duration;

use berth_core::decision::Decision;
use berth_core::environment::{Lock, Moment};
use berth_core::id::{EnvironmentId, OrgId};
use berth_store::Context;
use berth_store::query::environments;
use berth_store::records::environment;

use crate::app::App;
use crate::error::AppError;
use crate::limits::RUNNER_HEARTBEAT_S;

const SWEEP_EVERY: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Between two looks, however many nudges come: what happens meanwhile is seen in one go.
const LOOK_PAUSE: Duration = Duration::from_millis(5);
const RENEW_EVERY: Duration = Duration::from_secs(RUNNER_HEARTBEAT_S);
/// Before a loop that broke is begun again.
const RESTART_PAUSE: Duration = Duration::from_secs(1);
/// Attempts looked at in one go; more than all the processes of an installation run.
const RUNNING_MAX: i64 = 4_096;

/// Runs until the server stops, and until what it was executing has stopped too.
pub async fn run(app: Arc<App>) {
    tokio::join!(
        keep_on("sweep", &app, sweeps),
        keep_on("expire", &app, expiries),
        keep_on("deploy", &app, deployments),
        keep_on("renew", &app, renewals),
        keep_on("sync", &app, sync::syncs),
    );
    app.runner.finish().await;
}

/// One look at everything, for those who turn the crank by hand.
pub async fn tick(app: &Arc<App>) -> Result<(), AppError> {
    expire::expire(app).await?;
    sync::all(app).await?;
    deploy(app).await?;
    renew::renew(app).await
}

/// A loop that panics harms neither the others nor itself for long.
async fn keep_on<F>(name: &str, app: &Arc<App>, work: fn(Arc<App>) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    while let Err(error) = tokio::spawn(work(app.clone())).await {
        tracing::error!(%error, name, "background work broke; it begins again");
        if app.shutdown.run_until_cancelled(tokio::time::sleep(RESTART_PAUSE)).await.is_none() {
            return;
        }
    }
}

async fn sweeps(app: Arc<App>) {
    let mut tick = tokio::time::interval(SWEEP_EVERY);
    while app.shutdown.run_until_cancelled(tick.tick()).await.is_some() {
        if let Err(error) = sweep(&app).await {
            tracing::warn!(?error, "sweep failed; it is tried again in a minute");
        }
    }
}

async fn expiries(app: Arc<App>) {
    while !app.shutdown.is_cancelled() {
        if let Err(error) = expire::expire(&app).await {
            tracing::warn!(?error, "what is due could not be looked up; it is tried again in a second");
        }
        let pause = expire::pause(&app, LOOK_EVERY).await;
        app.shutdown.run_until_cancelled(tokio::time::sleep(pause)).await;
    }
}

async fn deployments(app: Arc<App>) {
    let mut nudges = app.runner.nudges();
    while !app.shutdown.is_cancelled() {
        nudges.mark_unchanged();
        if let Err(error) = deploy(&app).await {
            tracing::warn!(?error, "deployments could not be looked up; it is tried again in a second");
        }
        let nudged = async {
            tokio::time::sleep(LOOK_PAUSE).await;
            // A missing sender is an ending program.
            let _ = tokio::time::timeout(LOOK_EVERY, nudges.changed()).await;
        };
        app.shutdown.run_until_cancelled(nudged).await;
    }
}

async fn renewals(app: Arc<App>) {
    let mut tick = tokio::time::interval(RENEW_EVERY);
    while app.shutdown.run_until_cancelled(tick.tick()).await.is_some() {
        if let Err(error) = renew::renew(&app).await {
            tracing::warn!(
                ?error,
                "attempts could not be renewed; it is tried again in {RUNNER_HEARTBEAT_S} s"
            );
        }
    }
}

/// Tells what must stop, ends what is lost, starts what may start: in this order, so that what was left over from an
/// earlier process is gone before anything begins.
async fn deploy(app: &Arc<App>) -> Result<(), AppError> {
    let running =
        app.store.read(None, |db| Ok::<_, AppError>(environments::running(db, RUNNING_MAX)?)).await?;
    stop::stop(app, &running);
    reap::reap(app, running).await;
    start::start(app).await
}

/// Decides about one environment in a transaction of its own. `None`: there is no such environment.
async fn decide<A: Send + 'static>(
    app: &App,
    org: OrgId,
    id: EnvironmentId,
    rule: impl FnOnce(&Lock, &Moment) -> Decision<A> + Send + 'static,
) -> Result<Option<A>, AppError> {
    app.store
        .transact(Context::system(Some(org)), move |tx| {
            let Some(lock) = environment::by_id(tx, id)? else { return Ok(None) };
            let decision = rule(&lock, &tx.moment()?);
            Ok(Some(tx.commit(decision)?))
        })
        .await
}
