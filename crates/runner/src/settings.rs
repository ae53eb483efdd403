//! What a runner is told when it starts, and the limits it keeps.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use berth_core::runner::EXPOSED_MAX;

use crate::remote::Spool;
use crate::sandbox::{Confinement, HideError, UserError};

/// How long one question for work may wait for an answer.
pub const ACQUIRE_WAIT_MAX: Duration = Duration::from_secs(5);
/// How long one heartbeat may wait for an answer.
pub const HEARTBEAT_WAIT_MAX: Duration = Duration::from_secs(5);
/// Without an answer for this long a runner stops its steps by itself.
pub const RUNNER_SELF_STOP: Duration = Duration::from_secs(20);
pub const STEP_STOP_GRACE: Duration = Duration::from_secs(10);
pub const SHUTDOWN_GRACE: Duration = Duration::from_secs(8);
pub const STEP_LOG_BYTES_MAX: u64 = 1024 * 1024 * 1024;
pub const STEP_OUTPUT_BYTES_MAX: u64 = 1024 * 1024;
/// How long the log of a step that is over may be tried while the server does not take it.
pub const STEP_LOG_PATIENCE: Duration = Duration::from_secs(30);
/// How much of a step's log a runner on another machine keeps on its disk while the server is away.
pub const STEP_LOG_SPILL_BYTES_MAX: u64 = 256 * 1024 * 1024;
pub const LOG_CHUNK_BYTES_MAX: usize = 64 * 1024;

/// How far steps are kept apart from the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sandbox {
    /// Bubblewrap, or nothing runs.
    Auto,
    /// On one person's machine: bubblewrap, else Landlock, or nothing runs.
    Local,
    Bubblewrap,
    Landlock,
    Off,
}

impl std::fmt::Display for Sandbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Sandbox::Auto | Sandbox::Bubblewrap => "bubblewrap",
            Sandbox::Local => "bubblewrap or landlock",
            Sandbox::Landlock => "landlock",
            Sandbox::Off => "off",
        })
    }
}

#[derive(Debug, Clone)]
pub struct Settings {
    /// Made when it is not there, and private (0700). One runner at a time uses it.
    pub work_dir: PathBuf,
    /// New at every start.
    pub boot: String,
    /// How many steps run at once.
    pub places: usize,
    pub labels: Vec<String>,
    /// The work directory is hidden in it, too.
    pub confinement: Confinement,
    /// Where files with secrets are put: the first of these that is a tmpfs.
    pub secret_places: Vec<PathBuf>,
    pub step_memory_bytes_max: Option<u64>,
    pub step_log_bytes_max: u64,
    /// How much of it is kept on the disk while the server is away; 0 where the server is this very process.
    pub step_log_spill_bytes_max: u64,
    /// After this long the rest of a finished step's log is given up, so that the step's end is heard.
    pub step_log_patience: Duration,
    /// From TERM to KILL.
    pub stop_grace: Duration,
    /// The same when the runner itself ends.
    pub shutdown_grace: Duration,
    pub acquire_wait: Duration,
    pub heartbeat_wait: Duration,
    pub self_stop: Duration,
    /// Where it is written down what has begun; `None` where the server's own rows say so.
    pub spool: Option<Arc<Spool>>,
}

impl Settings {
    pub fn new(work_dir: PathBuf, boot: String, confinement: Confinement) -> Self {
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        Self {
            work_dir,
            boot,
            places: 4,
            labels: Vec::new(),
            confinement,
            secret_places: std::iter::once(PathBuf::from("/dev/shm")).chain(runtime).collect(),
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

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot use {path} as work directory: {source}")]
    WorkDir { path: PathBuf, source: std::io::Error },
    #[error("{0} is in use by another runner: give each a work directory of its own")]
    InUse(PathBuf),
    #[error("the sandbox {0} does not work here: {1}")]
    Sandbox(Sandbox, String),
    #[error("more than {EXPOSED_MAX} paths are exposed to steps: expose their directory instead")]
    TooManyExposed,
    #[error(transparent)]
    User(#[from] UserError),
    #[error(transparent)]
    Hide(#[from] HideError),
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}
