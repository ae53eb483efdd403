//! Execute: one attempt from its grant to its report.
//!
//! Until the engine is there, only the built-in `dummy` step runs, inside this process.

use std::time::Duration;

use berth_core::deployment::Failure;
use berth_core::deployment::report::{Order, Outcome, order};
use berth_store::records::{deployment, environment, pipeline};
use berth_store::{Context, StoreError};

use super::attempt::Attempt;
use super::backoff::Backoff;
use super::dummy::Dummy;
use super::plan::{plan, refused};
use super::report::report;
use crate::app::App;
use crate::error::AppError;
use crate::limits::{STEP_STOP_AT_SHUTDOWN_S, STEP_STOP_GRACE_S};

const STOP_GRACE: Duration = Duration::from_secs(STEP_STOP_GRACE_S);
const STOP_AT_SHUTDOWN: Duration = Duration::from_secs(STEP_STOP_AT_SHUTDOWN_S);

pub(super) async fn execute(app: &App, attempt: &Attempt) {
    let outcome = outcome(app, attempt).await;
    report(app, attempt, outcome).await;
}

async fn outcome(app: &App, attempt: &Attempt) -> Outcome {
    let Some(planned) = attempt.stop.run_until_cancelled(load(app, attempt)).await else {
        return stopped(attempt);
    };
    let steps = match planned {
        Ok(steps) => steps,
        Err(failure) => return Outcome::Failed(failure),
    };
    for step in &steps {
        // Asked again before every step: the environment may have changed hands since the last one.
        attempt.stop.run_until_cancelled(leave(app, attempt)).await;
        if attempt.stop.is_cancelled() {
            return stopped(attempt);
        }
        match attempt.stop.run_until_cancelled(step.work()).await {
            Some(Ok(())) => {}
            Some(Err(failure)) => return Outcome::Failed(failure),
            None => {
                wind_down(app, step).await;
                return stopped(attempt);
            }
        }
    }
    Outcome::Succeeded
}

/// Waits for the leave to begin a step, given where sessions end: in a transaction. An attempt that shall stop never
/// gets it, and while the pipeline is stopped nobody does.
async fn leave(app: &App, attempt: &Attempt) {
    let mut backoff = Backoff::new();
    loop {
        let (environment, id, nonce) = (attempt.environment, attempt.deployment, attempt.nonce.clone());
        let asked = app.store.transact(Context::system(Some(attempt.org)), move |tx| {
            // Whoever asks is alive.
            deployment::renew(tx, id, &nonce)?;
            let lock = environment::by_id(tx, environment)?;
            Ok::<_, AppError>(lock.map(|lock| (order(&lock, id, &nonce), lock.is_paused)))
        });
        match asked.await {
            Ok(Some((Order::Continue, false))) => return,
            Ok(Some((Order::Continue, true))) => {}
            Ok(Some((Order::Cancel, _))) => {
                attempt.cancel();
                return;
            }
            Ok(Some((Order::Stale, _)) | None) => {
                attempt.stop.cancel();
                return;
            }
            Err(error) => {
                tracing::warn!(?error, deployment = %attempt.deployment, "nobody says whether to go on; it is asked again");
            }
        }
        tokio::time::sleep(backoff.pause()).await;
    }
}

/// Work that ends only because the server does has an end nobody asked for, and nobody knows how far it came.
fn stopped(attempt: &Attempt) -> Outcome {
    if attempt.is_cancelled() { Outcome::Stopped } else { Outcome::Lost }
}

/// The steps, as soon as they can be had.
async fn load(app: &App, attempt: &Attempt) -> Result<Vec<Dummy>, Failure> {
    let mut backoff = Backoff::new();
    loop {
        match try_load(app, attempt).await {
            Ok(planned) => return planned,
            Err(error @ (AppError::Fault(_) | AppError::Store(StoreError::Bug(_)))) => {
                tracing::error!(?error, deployment = %attempt.deployment, "a definition could not be read");
                return Err(refused("its definition could not be read; the server's log says why"));
            }
            Err(error) => {
                tracing::warn!(?error, deployment = %attempt.deployment, "a definition is not to be had; it is tried again");
            }
        }
        tokio::time::sleep(backoff.pause()).await;
    }
}

async fn try_load(app: &App, attempt: &Attempt) -> Result<Result<Vec<Dummy>, Failure>, AppError> {
    let hash = attempt.definition_hash.clone();
    let definition = app
        .store
        .read(Some(attempt.org), move |db| Ok::<_, AppError>(pipeline::definition(db, &hash)?))
        .await?;
    let environment = attempt.stage.clone();
    app.parsing.run(move || plan(definition.as_deref(), &environment)).await
}

/// A step that was told to stop gets the time it takes, within bounds; then it is gone.
async fn wind_down(app: &App, step: &Dummy) {
    let is_server_gone = async {
        app.shutdown.cancelled().await;
        tokio::time::sleep(STOP_AT_SHUTDOWN).await;
    };
    tokio::select! {
        () = tokio::time::sleep(step.stop_after().min(STOP_GRACE)) => {}
        () = is_server_gone => {}
    }
}
