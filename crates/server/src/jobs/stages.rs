//! Starts deployments, moves them through their stages, and stops cancelled and lost deployments.

use std::sync::Arc;
use std::time::Duration;

use crate::error::AppError;
use berth_engine::Services;
use tokio::sync::{Mutex, watch};
use tokio::task::JoinHandle;

use crate::worker::{BackgroundJob, LOOK_EVERY, TurnResult};

/// Debounce between turns: transactions committed within this time are handled together.
const TURN_PAUSE: Duration = Duration::from_millis(1);

/// Stops cancelled and lost deployments. Separate from [`StartDeployments`], because starting may be slow.
pub(super) struct StopDeployments {
    services: Arc<Services>,
    wakeups: EngineWakeups,
}

impl StopDeployments {
    pub(super) fn new(services: Arc<Services>) -> Self {
        Self { wakeups: EngineWakeups::subscribe(&services), services }
    }
}

impl BackgroundJob for StopDeployments {
    const NAME: &'static str = "stop deployments";

    async fn turn(&self) -> Result<TurnResult, AppError> {
        self.wakeups.clear().await;
        stop_deployments(&self.services).await.map(|()| TurnResult::Idle)
    }

    async fn wait(&self) {
        self.wakeups.wait().await;
    }
}

pub(super) async fn stop_deployments(services: &Services) -> Result<(), AppError> {
    berth_engine::propagate_cancellations(services).await?;
    Ok(berth_engine::reap(services).await?)
}

pub(super) struct StartDeployments {
    services: Arc<Services>,
    wakeups: EngineWakeups,
}

impl StartDeployments {
    pub(super) fn new(services: Arc<Services>) -> Self {
        Self { wakeups: EngineWakeups::subscribe(&services), services }
    }
}

impl BackgroundJob for StartDeployments {
    const NAME: &'static str = "start deployments";

    /// Does not wait for the tasks that it starts. A task may wait for git, which must not delay other organizations.
    async fn turn(&self) -> Result<TurnResult, AppError> {
        self.wakeups.clear().await;
        let services = &self.services;
        berth_engine::gates::process_due_gates(services).await?;
        berth_engine::recount(services).await?;
        drop(berth_engine::begin_environment_deployments(services).await?);
        drop(berth_engine::begin_stage_deployments(services).await?);
        berth_engine::enter_stages(services).await?;
        Ok(TurnResult::Idle)
    }

    async fn wait(&self) {
        self.wakeups.wait().await;
    }
}

/// For tests: starts deployments and waits until they have started.
pub(super) async fn start_and_wait(services: &Arc<Services>) -> Result<(), AppError> {
    berth_engine::gates::process_due_gates(services).await?;
    join_starts(berth_engine::begin_environment_deployments(services).await?).await?;
    join_starts(berth_engine::begin_stage_deployments(services).await?).await?;
    Ok(berth_engine::enter_stages(services).await?)
}

async fn join_starts(starts: Vec<JoinHandle<()>>) -> Result<(), AppError> {
    for ended in futures_util::future::join_all(starts).await {
        ended.map_err(|error| AppError::bug(format!("starting a deployment panicked: {error}")))?;
    }
    Ok(())
}

/// Wake-ups of the engine. A wake-up that arrives during a turn causes another turn.
struct EngineWakeups(Mutex<watch::Receiver<()>>);

impl EngineWakeups {
    fn subscribe(services: &Services) -> Self {
        Self(Mutex::new(services.engine.subscribe_wakes()))
    }

    async fn clear(&self) {
        self.0.lock().await.mark_unchanged();
    }

    async fn wait(&self) {
        tokio::time::sleep(TURN_PAUSE).await;
        // On a timeout, the job runs its regular turn. An error means that the sender is gone because the process is
        // ending.
        let _ = tokio::time::timeout(LOOK_EVERY, self.0.lock().await.changed()).await;
    }
}
