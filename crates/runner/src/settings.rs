//! Settings and limits of a runner.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use berth_core::runner::EXPOSED_MAX;

use crate::remote::AttemptSpool;
use crate::sandbox::{Confinement, HiddenPathError, StepUserError};

/// Long-poll timeout of a request for work.
pub const ACQUIRE_WAIT_MAX: Duration = Duration::from_secs(5);
/// Long-poll timeout of a heartbeat.
pub const HEARTBEAT_WAIT_MAX: Duration = Duration::from_secs(5);
/// After this long without a response to a heartbeat, a runner stops its steps.
pub const RUNNER_SELF_STOP: Duration = Duration::from_secs(20);
/// Default time between SIGTERM and SIGKILL.
pub const STEP_STOP_GRACE: Duration = Duration::from_secs(10);
/// The same on shutdown of the runner.
pub const SHUTDOWN_GRACE: Duration = Duration::from_secs(8);
/// Limit for the log of one step.
pub const STEP_LOG_BYTES_MAX: u64 = 1024 * 1024 * 1024;
/// Limit for the outputs of one step.
pub const STEP_OUTPUT_BYTES_MAX: u64 = 1024 * 1024;
/// How long a finished step waits for the server to take its log.
pub const STEP_LOG_PATIENCE: Duration = Duration::from_secs(30);
/// How much of a step's log a remote runner stores on disk while the server is unavailable.
pub const STEP_LOG_SPILL_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Limit for one log chunk.
pub const LOG_CHUNK_BYTES_MAX: usize = 64 * 1024;

/// Which sandbox steps run in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SandboxMode {
    /// Bubblewrap; the runner does not start without it.
    Auto,
    /// For a single-user machine: bubblewrap, or else Landlock; the runner does not start without either.
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
    /// Created if missing, with mode 0700. Only one runner may use it at a time.
    pub work_dir: PathBuf,
    /// Id of this process, new at every start.
    pub boot: String,
    /// How many steps run at the same time.
    pub slots: usize,
    pub labels: Vec<String>,
    /// The runner hides its work directory in it.
    pub confinement: Confinement,
    /// Candidates for the directory of secret files; the first one on a tmpfs is used.
    pub secret_dirs: Vec<PathBuf>,
    pub step_memory_bytes_max: Option<u64>,
    pub step_log_bytes_max: u64,
    /// How much of a log is stored on disk while the server is unavailable; 0 for the embedded runner.
    pub step_log_spill_bytes_max: u64,
    /// After this long the rest of a finished step's log is dropped, so that the outcome can be reported.
    pub step_log_patience: Duration,
    /// Time between SIGTERM and SIGKILL.
    pub stop_grace: Duration,
    /// The same on shutdown of the runner.
    pub shutdown_grace: Duration,
    pub acquire_wait: Duration,
    pub heartbeat_wait: Duration,
    pub self_stop: Duration,
    /// Records started attempts; `None` for the embedded runner, whose server has them in its database.
    pub spool: Option<Arc<AttemptSpool>>,
}

impl RunnerOptions {
    /// Defaults for an embedded runner.
    pub fn new(work_dir: PathBuf, boot: String, confinement: Confinement) -> Self {
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        Self {
            work_dir,
            boot,
            slots: 4,
            labels: Vec::new(),
            confinement,
            secret_dirs: std::iter::once(PathBuf::from("/dev/shm")).chain(runtime).collect(),
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
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}
