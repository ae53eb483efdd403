//! Background work: reconcilers that take no input, do what is due, and are safe to run twice.
//!
//! What is so stands in the store. The loops here only decide when to look: on a nudge, and at least every second.

mod expire;
mod lead;
mod retention;
mod seal;
mod sweep;
mod sync;

pub use crate::fixes::ends::notice_fix_ends;
pub(crate) use lead::Lead;
pub use retention::{retain, retain_artifacts, retain_events};
pub use sweep::sweep;
pub(crate) use sync::{Syncs, credential};

use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::analysis;
use crate::app::App;
use crate::engine;
use crate::error::AppError;
use crate::fixes;
use crate::limits::LOG_FLUSH_EVERY;
use crate::notify;
use crate::registries;
use lead::while_leading;

const SWEEP_EVERY: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_secs(1);
const OTHER_LOGS_EVERY: Duration = Duration::from_millis(250);
/// Between two looks, however many nudges come: what happens meanwhile is seen in one go.
const LOOK_PAUSE: Duration = Duration::from_millis(1);
/// Before a loop that broke is begun again.
const RESTART_PAUSE: Duration = Duration::from_secs(1);

/// Runs until the server stops.
pub async fn run(app: Arc<App>) {
    tokio::join!(
        keep_on("lead", &app, lead::leads),
        keep_on("hear", &app, lead::hears),
        keep_on("show what is ready", &app, engine::shows),
        keep_on("flush logs", &app, flushes),
        keep_on("other logs", &app, other_logs),
        keep_on("seal logs", &app, seal::seals),
        while_leading("sweep", &app, sweeps),
        while_leading("retention", &app, retention::retains),
        while_leading("expire", &app, expiries),
        while_leading("stop", &app, stops),
        while_leading("begin", &app, begins),
        while_leading("sync", &app, sync::syncs),
        while_leading("registries", &app, registries::looks),
        while_leading("fixes", &app, fixes::fixes),
        while_leading("ends of fixes", &app, fixes::ends::ends),
        while_leading("notify", &app, notify::notifies),
        while_leading("analyse", &app, analysis::analyses),
    );
    // The last of what its steps said.
    flush_logs(&app).await;
}

/// One look at everything, for those who turn the crank by hand.
pub async fn tick(app: &Arc<App>) -> Result<(), AppError> {
    expire::expire(app).await?;
    sync::all(app).await?;
    registries::all(app).await?;
    fixes::all(app).await?;
    analysis::all(app).await?;
    stop(app).await?;
    engine::gates::pass_time(app).await?;
    wait_for(engine::begin_startable(app).await?).await;
    wait_for(engine::begin_rollouts(app).await?).await;
    engine::enter_stages(app).await
}

async fn wait_for(begun: Vec<JoinHandle<()>>) {
    for ended in futures_util::future::join_all(begun).await {
        if let Err(error) = ended {
            tracing::error!(%error, "a deployment could not be begun");
        }
    }
}

/// A loop that panics harms neither the others nor itself for long.
async fn keep_on<F>(name: &str, app: &Arc<App>, work: fn(Arc<App>) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    while let Err(error) = EndsWith(tokio::spawn(work(app.clone()))).await {
        tracing::error!(%error, name, "background work broke; it begins again");
        if app.shutdown.run_until_cancelled(tokio::time::sleep(RESTART_PAUSE)).await.is_none() {
            return;
        }
    }
}

/// A task that ends when nobody waits for it any more.
struct EndsWith(JoinHandle<()>);

impl Future for EndsWith {
    type Output = Result<(), tokio::task::JoinError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut std::task::Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context)
    }
}

impl Drop for EndsWith {
    fn drop(&mut self) {
        self.0.abort();
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

/// What must stop and what is lost: never behind what takes its time.
async fn stops(app: Arc<App>) {
    let mut nudges = app.engine.nudges();
    while !app.shutdown.is_cancelled() {
        nudges.mark_unchanged();
        warn_of(stop(&app).await);
        pause(&app, &mut nudges).await;
    }
}

async fn begins(app: Arc<App>) {
    let mut nudges = app.engine.nudges();
    while !app.shutdown.is_cancelled() {
        nudges.mark_unchanged();
        warn_of(begin(&app).await);
        pause(&app, &mut nudges).await;
    }
}

fn warn_of(looked: Result<(), AppError>) {
    if let Err(error) = looked {
        tracing::warn!(?error, "deployments could not be looked up; it is tried again in a second");
    }
}

/// Until the next nudge, or for a second.
async fn pause(app: &App, nudges: &mut watch::Receiver<()>) {
    let nudged = async {
        tokio::time::sleep(LOOK_PAUSE).await;
        // A missing sender is an ending program.
        let _ = tokio::time::timeout(LOOK_EVERY, nudges.changed()).await;
    };
    app.shutdown.run_until_cancelled(nudged).await;
}

async fn flushes(app: Arc<App>) {
    let mut tick = tokio::time::interval(LOG_FLUSH_EVERY);
    while app.shutdown.run_until_cancelled(tick.tick()).await.is_some() {
        flush_logs(&app).await;
    }
}

/// Logs that another server writes, for those who follow them here.
async fn other_logs(app: Arc<App>) {
    if !app.store.is_shared() {
        return;
    }
    let mut tick = tokio::time::interval(OTHER_LOGS_EVERY);
    while app.shutdown.run_until_cancelled(tick.tick()).await.is_some() {
        let logs = app.logs.clone();
        if tokio::task::spawn_blocking(move || logs.catch_up_all()).await.is_err() {
            tracing::error!("looking at logs of other servers broke");
        }
    }
}

async fn flush_logs(app: &App) {
    let logs = app.logs.clone();
    if tokio::task::spawn_blocking(move || logs.flush_all()).await.is_err() {
        tracing::error!("flushing logs broke");
    }
}

async fn stop(app: &App) -> Result<(), AppError> {
    engine::cancel_told(app).await?;
    engine::reap(app).await
}

/// Waits for none of what begins: it may wait for git, and other organizations do not wait for that.
async fn begin(app: &Arc<App>) -> Result<(), AppError> {
    engine::gates::pass_time(app).await?;
    engine::recount(app).await?;
    drop(engine::begin_startable(app).await?);
    drop(engine::begin_rollouts(app).await?);
    engine::enter_stages(app).await
}
