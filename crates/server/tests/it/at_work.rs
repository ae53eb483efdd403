//! A server with its background jobs, and a real runner that calls the server within the same process.

use std::sync::Arc;

use berth_engine::EmbeddedLink;
use berth_runner::{Confinement, RunnerOptions, SandboxMode, StepRunner};
use berth_server::app::App;
use berth_server::jobs;
use tokio::task::JoinHandle;

pub(crate) struct AtWork {
    app: Arc<App>,
    loops: JoinHandle<()>,
    runner: Option<StepRunner>,
    _dir: tempfile::TempDir,
}

impl AtWork {
    pub(crate) fn begin(app: &Arc<App>) -> Self {
        let loops = tokio::spawn(jobs::run(app.jobs().clone()));
        let dir = tempfile::tempdir().unwrap();
        let runner = Some(runner(app, dir.path()));
        Self { app: app.clone(), loops, runner, _dir: dir }
    }

    /// Shuts down gracefully: stops running steps, and records their outcomes.
    pub(crate) async fn end(mut self) {
        self.app.services().shutdown.cancel();
        let runner = self.runner.take().unwrap();
        tokio::task::spawn_blocking(move || runner.stop()).await.unwrap();
        (&mut self.loops).await.unwrap();
    }
}

/// A runner without a sandbox, for tests that do not test isolation.
pub(crate) fn runner(app: &Arc<App>, dir: &std::path::Path) -> StepRunner {
    let link = Arc::new(EmbeddedLink::new(app.services().clone()));
    let confinement = Confinement::choose(SandboxMode::Off, &[], &[]).unwrap();
    let settings = RunnerOptions {
        labels: vec!["linux".into()],
        ..RunnerOptions::new(dir.join("work"), link.boot().to_owned(), confinement)
    };
    StepRunner::start(settings, link).unwrap()
}
