//! The runner inside the server: it executes the steps of deployments on this machine.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use berth_runner::{Runner, STEP_LOG_PATIENCE, Sandbox, Settings, kill_left_over};
use berth_server::app::App;
use berth_server::engine::Embedded;
use berth_server::registries::build_dir;
use tokio_util::sync::CancellationToken;

use crate::builder::InSandbox;
use crate::config::{RunnerSettings, SandboxLevel};

/// What builds registries, kept apart from this machine as steps are.
pub(crate) fn building(app: App, told: &RunnerSettings, hidden: &[PathBuf]) -> App {
    let hidden = hidden_from(&app, hidden);
    app.building_with(Arc::new(InSandbox { sandbox: sandbox(told.sandbox), hidden }))
}

/// `None`: this server runs no steps. What an earlier process left running is gone when this returns.
///
/// `hidden` are files that no step may read, besides the data directory.
pub(crate) fn start(
    app: &Arc<App>,
    told: &RunnerSettings,
    hidden: &[PathBuf],
) -> anyhow::Result<Option<Runner>> {
    let config = app.config();
    let work_dir = config.own_dir.join("work");
    // Builds begin again from the beginning.
    kill_left_over(&build_dir(&config.own_dir)).context("what an earlier build left cannot be stopped")?;
    let Some(labels) = config.runner_labels.clone() else {
        // The server calls what an earlier one ran lost: it has to be gone, too.
        kill_left_over(&work_dir).context("what an earlier process left cannot be stopped")?;
        return Ok(None);
    };
    let link = Arc::new(Embedded::new(app.clone()));
    let settings = Settings {
        places: told.places,
        labels,
        sandbox: sandbox(told.sandbox),
        hidden: hidden_from(app, hidden),
        step_memory_bytes_max: told.step_memory_bytes_max,
        stop_grace: config.runner_times.stop_grace,
        self_stop: config.runner_times.self_stop,
        // Logs wait for the server as long as steps do.
        step_log_patience: STEP_LOG_PATIENCE.max(config.runner_times.self_stop),
        heartbeat_wait: config.runner_times.heartbeat,
        ..Settings::new(work_dir, link.boot().to_owned())
    };
    let runner = Runner::start(settings, link).context("the runner cannot start")?;
    tracing::info!(isolation = ?runner.isolation(), places = told.places, "the runner is ready");
    Ok(Some(runner))
}

pub(crate) fn sandbox(level: SandboxLevel) -> Sandbox {
    match level {
        SandboxLevel::Auto => Sandbox::Auto,
        SandboxLevel::Bubblewrap => Sandbox::Bubblewrap,
        SandboxLevel::Landlock => Sandbox::Landlock,
        SandboxLevel::Off => Sandbox::Off,
    }
}

fn hidden_from(app: &App, others: &[PathBuf]) -> Vec<PathBuf> {
    std::iter::once(&app.config().data_dir).chain(others).cloned().collect()
}

/// Until the server stops: then its steps are stopped, and their ends written.
pub(crate) async fn run(runner: Option<Runner>, stop: CancellationToken) {
    stop.cancelled().await;
    let Some(runner) = runner else { return };
    if tokio::task::spawn_blocking(move || runner.stop()).await.is_err() {
        tracing::error!("the runner broke while it stopped");
    }
}
