//! A server with its background jobs, and a real runner that calls the server within the same process.

use std::sync::Arc;

use berth_engine::EmbeddedLink;
use berth_runner::{Confinement, RunnerOptions, SandboxMode, StepRunner};
use berth_server::app::App;
use berth_server::jobs;
use tokio::task::JoinHandle;

pub(crate) struct JobsWithRunner {
    app: Arc<App>,
    jobs: JoinHandle<()>,
    runner: Option<StepRunner>,
    _dir: tempfile::TempDir,
}

impl JobsWithRunner {
    pub(crate) fn start(app: &Arc<App>) -> Self {
        let jobs = tokio::spawn(jobs::run(app.jobs().clone()));
        let dir = tempfile::tempdir().unwrap();
        let runner = Some(start_runner(app, dir.path()));
        Self { app: app.clone(), jobs, runner, _dir: dir }
    }

    /// Shuts down gracefully: stops running steps, and records their outcomes.
    pub(crate) async fn shut_down(mut self) {
        self.app.services().shutdown.cancel();
        let runner = self.runner.take().unwrap();
        tokio::task::spawn_blocking(move || runner.stop()).await.unwrap();
        (&mut self.jobs).await.unwrap();
    }
}

/// A runner without a sandbox, for tests that do not test isolation.
pub(crate) fn start_runner(app: &Arc<App>, dir: &std::path::Path) -> StepRunner {
    let link = Arc::new(EmbeddedLink::new(app.services().clone()));
    let confinement = Confinement::choose(SandboxMode::Off, &[], &[]).unwrap();
    let settings = RunnerOptions {
        labels: vec!["linux".into()],
        ..RunnerOptions::new(dir.join("work"), link.boot().to_owned(), confinement)
    };
    StepRunner::start(settings, link).unwrap()
}
