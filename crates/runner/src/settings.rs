//! Settings and limits of a runner.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use berth_core::runner::EXPOSED_MAX;

use crate::container::{ContainerEngineError, ContainerEngineOptions};
use crate::kubernetes::{KubernetesError, KubernetesOptions};
use crate::remote::AttemptSpool;
use crate::sandbox::{Confinement, HiddenPathError, StepUserError};

/// Long-poll timeout of a request for work.
pub const ACQUIRE_WAIT_MAX: Duration = Duration::from_secs(5);
/// Long-poll timeout of a heartbeat.
pub const HEARTBEAT_WAIT_MAX: Duration = Duration::from_secs(5);
/// A runner stops its steps if it gets no response to its heartbeats for this long.
pub const RUNNER_SELF_STOP: Duration = Duration::from_secs(20);
/// Default time between SIGTERM and SIGKILL.
pub const STEP_STOP_GRACE: Duration = Duration::from_secs(10);
/// Default time between SIGTERM and SIGKILL while the runner is shutting down.
pub const SHUTDOWN_GRACE: Duration = Duration::from_secs(8);
/// Maximum size of one step's log.
pub const STEP_LOG_BYTES_MAX: u64 = 1024 * 1024 * 1024;
/// Maximum total size of one step's outputs.
pub const STEP_OUTPUT_BYTES_MAX: u64 = 1024 * 1024;
/// How long a finished step waits for the server to accept its log.
pub const STEP_LOG_PATIENCE: Duration = Duration::from_secs(30);
/// Maximum number of bytes of a step's log that a remote runner stores on disk while the server is unavailable.
pub const STEP_LOG_SPILL_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Maximum size of one log chunk.
pub const LOG_CHUNK_BYTES_MAX: usize = 64 * 1024;

/// Which sandbox steps run in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SandboxMode {
    /// Bubblewrap. Without it, the runner does not start.
    Auto,
    /// For a single-user machine: bubblewrap or, if it is not available, Landlock. Without either, the runner does not
    /// start.
    Local,
    Bubblewrap,
    Landlock,
    Off,
}

impl std::fmt::Display for SandboxMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            SandboxMode::Auto | SandboxMode::Bubblewrap => "bubblewrap",
            SandboxMode::Local => "bubblewrap or landlock",
            SandboxMode::Landlock => "landlock",
            SandboxMode::Off => "off",
        })
    }
}

/// Settings of a runner.
#[derive(Debug, Clone)]
pub struct RunnerOptions {
    /// The work directory, created with mode 0700 if missing. Only one runner may use it at a time.
    pub work_dir: PathBuf,
    /// Id of this runner process, generated at every start.
    pub boot: String,
    /// Maximum number of steps that run at the same time.
    pub slots: usize,
    pub labels: Vec<String>,
    /// The sandbox of steps. The runner adds its work directory to the hidden paths.
    pub confinement: Confinement,
    /// Candidates for the directory of secret files. The first one that is on a tmpfs is used.
    pub secret_dirs: Vec<PathBuf>,
    /// The container engine. `None` if the runner executes no container steps.
    pub containers: Option<ContainerEngineOptions>,
    /// The Kubernetes cluster that executes container steps instead of a container engine.
    pub kubernetes: Option<KubernetesOptions>,
    pub step_memory_bytes_max: Option<u64>,
    pub step_log_bytes_max: u64,
    /// Maximum number of bytes of a log that are stored on disk while the server is unavailable. 0 for the embedded
    /// runner.
    pub step_log_spill_bytes_max: u64,
    /// How long to wait for the server to accept the log of a finished step. After that, the rest of the log is
    /// dropped, so that the outcome can be reported.
    pub step_log_patience: Duration,
    /// Time between SIGTERM and SIGKILL.
    pub stop_grace: Duration,
    /// Time between SIGTERM and SIGKILL while the runner is shutting down.
    pub shutdown_grace: Duration,
    pub acquire_wait: Duration,
    pub heartbeat_wait: Duration,
    pub self_stop: Duration,
    /// Records started attempts. `None` for the embedded runner, because its server has the attempts in its own
    /// database.
    pub spool: Option<Arc<AttemptSpool>>,
}

impl RunnerOptions {
    /// Creates the default settings for an embedded runner.
    pub fn new(work_dir: PathBuf, boot: String, confinement: Confinement) -> Self {
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        Self {
            work_dir,
            boot,
            slots: 4,
            labels: Vec::new(),
            confinement,
            secret_dirs: std::iter::once(PathBuf::from("/dev/shm")).chain(runtime).collect(),
            containers: None,
            kubernetes: None,
            step_memory_bytes_max: None,
            step_log_bytes_max: STEP_LOG_BYTES_MAX,
            step_log_spill_bytes_max: 0,
            step_log_patience: STEP_LOG_PATIENCE,
            stop_grace: STEP_STOP_GRACE,
            shutdown_grace: SHUTDOWN_GRACE,
            acquire_wait: ACQUIRE_WAIT_MAX,
            heartbeat_wait: HEARTBEAT_WAIT_MAX,
            self_stop: RUNNER_SELF_STOP,
            spool: None,
        }
    }
}

/// Why a runner cannot start.
#[derive(Debug, thiserror::Error)]
pub enum RunnerStartError {
    #[error("cannot use {path} as work directory: {source}")]
    WorkDir { path: PathBuf, source: std::io::Error },
    #[error("{0} is in use by another runner: give each a work directory of its own")]
    InUse(PathBuf),
    #[error("the sandbox {0} does not work here: {1}")]
    Sandbox(SandboxMode, String),
    #[error("more than {EXPOSED_MAX} paths are exposed to steps: expose their directory instead")]
    TooManyExposed,
    #[error(transparent)]
    User(#[from] StepUserError),
    #[error(transparent)]
    Hide(#[from] HiddenPathError),
    #[error(transparent)]
    Containers(#[from] ContainerEngineError),
    #[error(transparent)]
    Kubernetes(#[from] KubernetesError),
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}
