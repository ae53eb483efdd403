//! The runner inside the server: it executes the steps of deployments on this machine.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use berth_runner::{Confinement, Runner, STEP_LOG_PATIENCE, Sandbox, Settings, StartError, kill_left_over};
use berth_server::app::App;
use berth_server::config::Config;
use berth_server::engine::Embedded;
use berth_server::registries::build_dir;
use tokio_util::sync::CancellationToken;

use crate::builder::InSandbox;
use crate::config::{RunnerSettings, SandboxLevel};

/// What to do about it, after the reason.
const NOTHING_RUNS: &str = "this server runs no steps and builds no custom steps until bubblewrap works, or \
    `--sandbox landlock` or `--sandbox off` is given, or runners on other machines do it";

/// How steps and builds are kept apart from this machine, found out once.
///
/// `Err`: neither is run here, and why. A level that was asked for by name has to work.
pub(crate) fn confine(
    config: &Config,
    told: &RunnerSettings,
    hidden: &[PathBuf],
) -> anyhow::Result<Result<Confinement, String>> {
    let level = sandbox(told.sandbox, config.is_local());
    let hidden: Vec<PathBuf> =
        [&config.data_dir, &config.own_dir].into_iter().chain(hidden).cloned().collect();
    match Confinement::choose(level, &hidden, &told.expose) {
        Ok(confinement) => Ok(Ok(confinement)),
        Err(error @ StartError::Sandbox(Sandbox::Auto | Sandbox::Local, _)) => {
            tracing::error!("{error}; {NOTHING_RUNS}");
            Ok(Err(format!("{error}; {NOTHING_RUNS}")))
        }
        Err(error) => Err(error).context("steps cannot be kept apart from this machine"),
    }
}

/// What builds registries, kept apart from this machine as steps are.
pub(crate) fn building(app: App, confinement: Result<Confinement, String>) -> App {
    app.building_with(Arc::new(InSandbox { confinement }))
}

/// `None`: this server runs no steps. What an earlier process left running is gone when this returns.
pub(crate) fn start(
    app: &Arc<App>,
    told: &RunnerSettings,
    confinement: Result<Confinement, String>,
) -> anyhow::Result<Option<Runner>> {
    let config = app.config();
    let work_dir = config.own_dir.join("work");
    // Builds begin again from the beginning.
    kill_left_over(&build_dir(&config.own_dir)).context("what an earlier build left cannot be stopped")?;
    let (Some(labels), Ok(confinement)) = (config.runner_labels.clone(), confinement) else {
        // The server calls what an earlier one ran lost: it has to be gone, too.
        kill_left_over(&work_dir).context("what an earlier process left cannot be stopped")?;
        return Ok(None);
    };
    let link = Arc::new(Embedded::new(app.clone()));
    let settings = Settings {
        places: told.places,
        labels,
        step_memory_bytes_max: told.step_memory_bytes_max,
        stop_grace: config.runner_times.stop_grace,
        self_stop: config.runner_times.self_stop,
        // Logs wait for the server as long as steps do.
        step_log_patience: STEP_LOG_PATIENCE.max(config.runner_times.self_stop),
        heartbeat_wait: config.runner_times.heartbeat,
        ..Settings::new(work_dir, link.boot().to_owned(), confinement)
    };
    let runner = Runner::start(settings, link).context("the runner cannot start")?;
    tracing::info!(isolation = ?runner.isolation(), places = told.places, "the runner is ready");
    Ok(Some(runner))
}

pub(crate) fn sandbox(level: SandboxLevel, is_local: bool) -> Sandbox {
    match level {
        SandboxLevel::Auto if is_local => Sandbox::Local,
        SandboxLevel::Auto => Sandbox::Auto,
        SandboxLevel::Bubblewrap => Sandbox::Bubblewrap,
        SandboxLevel::Landlock => Sandbox::Landlock,
        SandboxLevel::Off => Sandbox::Off,
    }
}

/// Until the server stops: then its steps are stopped, and their ends written.
pub(crate) async fn run(runner: Option<Runner>, stop: CancellationToken) {
    stop.cancelled().await;
    let Some(runner) = runner else { return };
    if tokio::task::spawn_blocking(move || runner.stop()).await.is_err() {
        tracing::error!("the runner broke while it stopped");
    }
}
