//! Runs background jobs, with polling, concurrency, retries, and restarts after a panic.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::error::AppError;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// How often a job runs if nothing wakes it.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Pause before a panicked job is restarted.
const RESTART_PAUSE: Duration = Duration::from_secs(1);
/// Maximum number of turns in [`run_once`].
const TURNS_MAX: usize = 1_000;

/// The result of [`BackgroundJob::turn`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TurnResult {
    /// Some work was done, and there may be more.
    Again,
    /// No work is due.
    Idle,
}

/// A background job. It takes no input: it reads the work that is due from the database, and is safe to run twice.
pub(crate) trait BackgroundJob: Send + Sync + 'static {
    /// Name of the job in logs.
    const NAME: &'static str;
    /// Number of turns that may run concurrently.
    const LANES: usize = 1;

    /// Recovers work that an interrupted process left behind. Called before the first turn.
    fn resume(&self) -> impl Future<Output = Result<(), AppError>> + Send {
        async { Ok(()) }
    }

    fn turn(&self) -> impl Future<Output = Result<TurnResult, AppError>> + Send;

    /// Called after an idle or failed turn. Waits until there may be work to do.
    fn wait(&self) -> impl Future<Output = ()> + Send;
}

/// Runs a job until the server stops. After a panic the job is restarted; other jobs are not affected.
pub(crate) async fn run<J: BackgroundJob>(job: Arc<J>, shutdown: CancellationToken) {
    let start = || {
        let (job, shutdown) = (job.clone(), shutdown.clone());
        async move {
            while let Err(error) = job.resume().await {
                tracing::warn!(?error, job = J::NAME, "job could not resume; retrying");
                if shutdown.run_until_cancelled(job.wait()).await.is_none() {
                    return;
                }
            }
            futures_util::future::join_all((0..J::LANES).map(|_| run_lane(&*job, &shutdown))).await;
        }
    };
    supervise(J::NAME, &shutdown, start).await;
}

async fn run_lane<J: BackgroundJob>(job: &J, shutdown: &CancellationToken) {
    while !shutdown.is_cancelled() {
        match job.turn().await {
            Ok(TurnResult::Again) => continue,
            Ok(TurnResult::Idle) => {}
            Err(error) => tracing::warn!(?error, job = J::NAME, "job failed; retrying"),
        }
        shutdown.run_until_cancelled(job.wait()).await;
    }
}

/// For tests: does all work that is due now.
pub(crate) async fn run_once<J: BackgroundJob>(job: &J) -> Result<(), AppError> {
    job.resume().await?;
    for _ in 0..TURNS_MAX {
        if job.turn().await? == TurnResult::Idle {
            break;
        }
    }
    Ok(())
}

/// Runs `work` and restarts it after a panic, until it returns or the server stops.
pub(crate) async fn supervise<F>(name: &str, shutdown: &CancellationToken, work: impl Fn() -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    while let Err(error) = AbortOnDrop(tokio::spawn(work())).await {
        tracing::error!(%error, name, "background task panicked; restarting");
        if shutdown.run_until_cancelled(tokio::time::sleep(RESTART_PAUSE)).await.is_none() {
            return;
        }
    }
}

/// A task that is aborted when its handle is dropped.
struct AbortOnDrop(JoinHandle<()>);

impl Future for AbortOnDrop {
    type Output = Result<(), tokio::task::JoinError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut std::task::Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context)
    }
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Waits until the job is woken, for at most [`LOOK_EVERY`].
pub(crate) async fn wait_for_wakeup(wakeup: &Notify) {
    // On a timeout, the job polls without having been woken.
    let _ = tokio::time::timeout(LOOK_EVERY, wakeup.notified()).await;
}
