//! Runs commands in containers, through the API of Podman or Docker.
//!
//! ```text
//! prepare   resolve and pull the images · network · services · create the container
//! start     attach to the output · start
//! reap      remove the container, the services and the network; verify that they are gone
//! ```
//!
//! Everything that is created has labels, so that leftovers of a crash can be found (see [`orphans`]). A container gets
//! the workspace, the output file and the secret files by bind mounts, and nothing else of the machine.

mod build_inputs;
mod build_storage;
mod command;
mod create;
mod engine;
mod image;
mod image_build;
mod labels;
mod orphans;
mod services;

use std::io::{self, PipeWriter};

use berth_api::runner::{ContainerAssignment, FailureCause, Network, StepRunOutcome};

use crate::attempt::dirs::AttemptDirs;
use crate::attempt::{RunningAttempt, failed_outcome, invalid_outcome};
use crate::executor::{ExecutionHost, Executor, RunningCommand};
use command::RunningContainer;
pub(crate) use engine::ContainerEngine;
pub use engine::{ContainerEngineError, ContainerEngineOptions};
#[cfg(feature = "kubernetes")]
pub(crate) use image::{check_pinned, find_login};
pub(crate) use image_build::build_image;

/// Runs a shell script in a container.
pub(crate) struct ContainerExecutor<'a> {
    attempt: &'a RunningAttempt<'a>,
    engine: &'a ContainerEngine,
    dirs: &'a AttemptDirs,
    container: &'a ContainerAssignment,
    script: &'a str,
    /// Id of the created container.
    id: Option<String>,
}

impl<'a> ContainerExecutor<'a> {
    pub(crate) fn new(
        attempt: &'a RunningAttempt<'a>,
        dirs: &'a AttemptDirs,
        container: &'a ContainerAssignment,
        script: &'a str,
    ) -> Result<Self, StepRunOutcome> {
        let engine = require_engine(attempt)?;
        if attempt.assignment.network == Network::Host && !engine.options.allows_host_network {
            return Err(invalid_outcome(
                "`network: host` is not allowed in containers of this runner; use `bridge`, or allow it with `host_network` in the runner's configuration".into(),
            ));
        }
        if !container.services.is_empty() && attempt.assignment.network != Network::Bridge {
            return Err(invalid_outcome("a step reaches its services only with `network: bridge`".into()));
        }
        Ok(Self { attempt, engine, dirs, container, script, id: None })
    }
}

/// Returns the container engine of the runner.
pub(crate) fn require_engine<'a>(
    attempt: &'a RunningAttempt<'_>,
) -> Result<&'a ContainerEngine, StepRunOutcome> {
    attempt.shared.containers.as_ref().ok_or_else(|| {
        invalid_outcome(
            "this runner has no container engine; nothing of the step ran. Set `socket` in the section [runner.containers] of its configuration".into(),
        )
    })
}

impl Executor for ContainerExecutor<'_> {
    fn prepare(&mut self) -> Result<(), StepRunOutcome> {
        let (attempt, engine) = (self.attempt, self.engine);
        let image = image::pin(attempt, engine, &self.container.image, self.container.pull)?;
        let network = services::start(attempt, engine, self.dirs, self.container)?;
        let config = create::step_config(attempt, self.dirs, self.container, &image, network, self.script)?;
        let created = engine.call(attempt, engine.docker.create_container(None, config))?;
        let created = created.map_err(|error| never_started("create the container", &error))?;
        self.id = Some(created.id);
        Ok(())
    }

    fn start<'a>(
        &'a mut self,
        host: &dyn ExecutionHost,
        output: PipeWriter,
    ) -> io::Result<Box<dyn RunningCommand + 'a>> {
        let id = self.id.as_deref().ok_or_else(|| io::Error::other("the container was not created"))?;
        Ok(Box::new(RunningContainer::start(self.attempt, self.engine, id, host, output)?))
    }

    fn reap(&mut self) -> io::Result<()> {
        self.engine.remove_all_of(self.attempt, &self.dirs.id)
    }
}

fn never_started(what: &str, error: &bollard::errors::Error) -> StepRunOutcome {
    match error {
        // The engine refused the request because of what the step asks for.
        bollard::errors::Error::DockerResponseServerError { status_code: 400, message } => {
            failed_outcome(FailureCause::Invalid, format!("cannot {what}: {message}"))
        }
        _ => StepRunOutcome::never_started(format!("cannot {what}: {error}")),
    }
}
