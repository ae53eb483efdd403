//! The embedded runner, which runs steps on the server's machine.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use berth_engine::EmbeddedLink;
use berth_runner::{
    Confinement, RunnerOptions, RunnerStartError, STEP_LOG_PATIENCE, SandboxMode, StepRunner,
    StepUserAccount, kill_leftovers,
};
use berth_server::app::App;
use berth_server::config::AppConfig;
use tokio_util::sync::CancellationToken;

use crate::builder::SandboxedBuilder;
use crate::config::{RunnerSettings, SandboxLevel};

/// Advice that is logged after the reason why no sandbox works.
const NOTHING_RUNS: &str = "this server runs no steps and builds no custom steps; install bubblewrap, \
    set `--sandbox landlock` or `--sandbox off`, or add remote runners";

/// Chooses the sandbox for steps and builds, once at startup.
///
/// The inner `Err` is the reason why neither can run on this machine. If an explicitly chosen level does not work, the
/// outer result is an error and the server does not start.
pub(crate) fn choose_confinement(
    config: &AppConfig,
    told: &RunnerSettings,
    hidden: &[PathBuf],
) -> anyhow::Result<Result<Confinement, String>> {
    let level = sandbox_mode(told.sandbox, config.is_local());
    let dirs = [&config.data_dir, &config.own_dir].into_iter().chain(&told.work_dir);
    let hidden: Vec<PathBuf> = dirs.chain(hidden).cloned().collect();
    let user = told.user_name().map(StepUserAccount::find).transpose().context("runner.user")?;
    if let Some(dir) = &told.work_dir {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
        made.with_context(|| format!("cannot create the work directory {}", dir.display()))?;
    }
    match Confinement::choose_as(user, level, &hidden, &told.expose) {
        Ok(confinement) => Ok(Ok(confinement)),
        Err(error @ RunnerStartError::Sandbox(SandboxMode::Auto | SandboxMode::Local, _)) => {
            tracing::error!(%error, "no sandbox available; steps and builds are disabled");
            Ok(Err(format!("{error}; {NOTHING_RUNS}")))
        }
        Err(error) => Err(error).context("cannot set up the sandbox for steps"),
    }
}

/// Configures the builder of step registries, which uses the same sandbox as steps.
pub(crate) fn with_registry_builder(app: App, confinement: Result<Confinement, String>) -> App {
    app.with_builder(Arc::new(SandboxedBuilder { confinement }))
}

/// Kills leftover processes of an earlier server and starts the runner. Returns `None` if this server runs no steps.
pub(crate) fn start_runner(
    app: &Arc<App>,
    told: &RunnerSettings,
    confinement: Result<Confinement, String>,
) -> anyhow::Result<Option<StepRunner>> {
    let config = app.config();
    let (work_dir, build_dir) = (config.step_dir(), config.build_dir());
    // Kill processes of interrupted builds. These builds are started from scratch.
    kill_leftovers(&build_dir).context("cannot kill processes of an earlier build")?;
    if let Some(confinement) = confinement.as_ref().ok().filter(|it| it.has_user()) {
        grant_build_dirs(confinement, &work_dir, &build_dir)?;
    }
    let (Some(labels), Ok(confinement)) = (config.runner_labels.clone(), confinement) else {
        // The server will declare the attempts of its predecessor lost, so their processes must not be running anymore.
        kill_leftovers(&work_dir).context("cannot kill processes of an earlier server")?;
        return Ok(None);
    };
    let link = Arc::new(EmbeddedLink::new(app.services().clone()));
    let settings = RunnerOptions {
        slots: told.places,
        labels,
        containers: told.containers.options(),
        kubernetes: told.kubernetes.options(),
        step_memory_bytes_max: told.step_memory_bytes_max,
        stop_grace: config.runner_times.stop_grace,
        self_stop: config.runner_times.self_stop,
        // Buffer logs at least as long as steps keep running while the server is unreachable.
        step_log_patience: STEP_LOG_PATIENCE.max(config.runner_times.self_stop),
        heartbeat_wait: config.runner_times.heartbeat,
        ..RunnerOptions::new(work_dir, link.boot().to_owned(), confinement)
    };
    let runner = StepRunner::start(settings, link).context("cannot start the runner")?;
    tracing::info!(isolation = ?runner.isolation(), places = told.places, "runner started");
    Ok(Some(runner))
}

/// Gives the user that builds run as access to the build directories.
fn grant_build_dirs(confinement: &Confinement, work_dir: &Path, build_dir: &Path) -> anyhow::Result<()> {
    let attempts = build_dir.join("attempts");
    let failed = || format!("cannot use {} for builds", build_dir.display());
    DirBuilder::new().recursive(true).mode(0o700).create(&attempts).with_context(failed)?;
    // If the build directory is not in the work directory, it is in the data directory, which must stay inaccessible.
    if build_dir.starts_with(work_dir) {
        for dir in [work_dir, build_dir, &attempts] {
            confinement.allow_traverse(dir).with_context(failed)?;
        }
    }
    confinement.check_can_enter(&attempts).context("runner.work_dir")
}

pub(crate) fn sandbox_mode(level: SandboxLevel, is_local: bool) -> SandboxMode {
    match level {
        SandboxLevel::Auto if is_local => SandboxMode::Local,
        SandboxLevel::Auto => SandboxMode::Auto,
        SandboxLevel::Bubblewrap => SandboxMode::Bubblewrap,
        SandboxLevel::Landlock => SandboxMode::Landlock,
        SandboxLevel::Off => SandboxMode::Off,
    }
}

/// Stops the runner on shutdown, after it has reported the outcomes of its steps.
pub(crate) async fn stop_on_shutdown(runner: Option<StepRunner>, stop: CancellationToken) {
    stop.cancelled().await;
    let Some(runner) = runner else { return };
    if tokio::task::spawn_blocking(move || runner.stop()).await.is_err() {
        tracing::error!("runner panicked during shutdown");
    }
}
