//! Connection to the container engine.

use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use berth_api::runner::StepRunOutcome;
use berth_core::pipeline::container::container_labels;
use bollard::{ClientVersion, Docker};

use super::build_storage::BuildStorages;
use super::image::PublicImages;
use super::orphans;
use crate::async_calls::AsyncRuntime;
use crate::attempt::RunningAttempt;

/// The oldest API version that has all that is used here. Podman 4 and Docker 20.10 speak it.
const API_VERSION: ClientVersion = ClientVersion { major_version: 1, minor_version: 41 };
/// Timeout of a single request. Pulls and builds respond with a stream, to which it does not apply.
const REQUEST_SECONDS_MAX: u64 = 120;
/// How long the engine may take to respond when the runner starts.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);

/// Configuration of containers on a runner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerEngineOptions {
    /// The socket of Podman or Docker.
    pub socket: PathBuf,
    /// Whether steps may use the network of the machine.
    pub allows_host_network: bool,
    /// The program that builds images.
    pub buildah: PathBuf,
}

impl ContainerEngineOptions {
    /// The labels by which steps find this runner.
    pub fn labels(&self) -> Vec<String> {
        container_labels(self.allows_host_network).iter().map(ToString::to_string).collect()
    }
}

/// Why the container engine cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the container engine at {} does not respond: {detail}; start it, or remove `socket` from the section [runner.containers] of the configuration", .socket.display())]
pub struct ContainerEngineError {
    socket: PathBuf,
    detail: String,
}

/// The container engine of a runner.
pub(crate) struct ContainerEngine {
    pub(super) docker: Docker,
    pub(super) runtime: AsyncRuntime,
    pub(super) options: ContainerEngineOptions,
    pub(super) public_images: PublicImages,
    pub(super) builds: BuildStorages,
}

impl ContainerEngine {
    /// Connects to the engine and removes containers that an earlier process of this runner has left.
    pub(crate) fn connect(
        options: &ContainerEngineOptions,
        work_dir: &Path,
    ) -> Result<Self, ContainerEngineError> {
        let failed = |detail: String| ContainerEngineError { socket: options.socket.clone(), detail };
        let runtime = AsyncRuntime::start("containers").map_err(|error| failed(error.to_string()))?;
        let socket = options.socket.to_str().ok_or_else(|| failed("its path is not UTF-8".into()))?;
        let docker = Docker::connect_with_unix(socket, REQUEST_SECONDS_MAX, &API_VERSION);
        let docker = docker.map_err(|error| failed(error.to_string()))?;
        let engine = Self {
            docker,
            runtime,
            options: options.clone(),
            public_images: PublicImages::default(),
            builds: BuildStorages::new(work_dir),
        };
        let ping = async { tokio::time::timeout(CONNECT_TIME_MAX, engine.docker.ping()).await };
        match engine.runtime.block_on(ping) {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return Err(failed(error.to_string())),
            Err(_) => return Err(failed("it took too long".into())),
        }
        let removed =
            orphans::remove_orphans(&engine, work_dir).map_err(|error| failed(error.to_string()))?;
        if removed > 0 {
            tracing::info!(removed, "removed containers of an earlier process");
        }
        Ok(engine)
    }

    /// Makes a call to the engine on the attempt's thread. See [`AsyncRuntime::call`].
    pub(super) fn call<T>(
        &self,
        attempt: &RunningAttempt<'_>,
        call: impl Future<Output = T>,
    ) -> Result<T, StepRunOutcome> {
        self.runtime.call(attempt, call)
    }

    /// Removes the container, the services and the network of an attempt. Retries until nothing is left, or until the
    /// runner has to exit. An attempt is only reported as stopped after this.
    pub(super) fn remove_all_of(&self, attempt: &RunningAttempt<'_>, id: &str) -> io::Result<()> {
        let mut backoff = crate::backoff::Backoff::new();
        let mut is_told = false;
        loop {
            let Err(error) = orphans::remove_attempt(self, id) else { return Ok(()) };
            if !is_told {
                is_told = true;
                let text = format!("[berth] cannot remove the container, trying again: {error}");
                attempt.log.write_line(&text);
                tracing::warn!(%error, "removing a container failed; retrying");
            }
            if attempt.shared.is_past_deadline() {
                return Err(error);
            }
            std::thread::sleep(backoff.next());
            attempt.log.tick();
        }
    }
}
