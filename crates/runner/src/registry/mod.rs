//! Step registries on the runner's machine: build, metadata, calls.
//!
//! A registry is a directory with a program. Each call is one process: it gets its task in an argument or a file,
//! writes its answer to a file and its log to another. The answer file counts, whatever the exit code is and even
//! if the process hangs.

mod build;
mod cache;
mod call;
mod call_files;
mod dir_size;
mod file;
mod local;
mod manifest;
mod step;
mod step_log;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use berth_core::registry::{InputMode, StepMetadata};
use serde_json::Value;

use crate::sandbox::Confinement;

pub(crate) use cache::RegistryCache;
pub(crate) use step::run_custom_step as run_step;

pub use build::{RegistryBuildError, build};
pub use local::call;
pub use manifest::{MANIFEST_NAME, RegistryManifest};

/// Limit for the output of a build or a local call.
pub const BUILD_LOG_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Timeout of a call for metadata.
pub const METADATA_TIMEOUT: Duration = Duration::from_secs(60);
/// Limit for `build` and `start`.
pub const COMMAND_BYTES_MAX: usize = 8 * 1024;
/// Limit for a step's answer; metadata may be longer.
pub const ANSWER_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Outputs that one step may have.
pub const OUTPUTS_MAX: usize = 100;
/// Registries in a runner's cache.
pub const REGISTRIES_KEPT_MAX: usize = 16;
/// Total size of a runner's cache of registries.
pub const REGISTRIES_KEPT_BYTES_MAX: u64 = 8 * 1024 * 1024 * 1024;

/// Parameters of a build. The environment of this process is not passed on.
pub struct RegistryBuildRequest<'a> {
    /// The checkout. The build runs in it, and its content afterwards is the built registry.
    pub source: PathBuf,
    /// An empty directory for temporary files of the build; the caller removes it.
    pub scratch: PathBuf,
    /// For all commands and the call for metadata together.
    pub timeout: Duration,
    /// Limit for the built registry.
    pub bytes_max: u64,
    pub is_stopping: &'a dyn Fn() -> bool,
    /// May hide a parent of `source` and `scratch`.
    pub confinement: &'a Confinement,
    /// Further directories that the build may write to, such as a cache.
    pub writable: Vec<PathBuf>,
    /// Variables besides `PATH`, `HOME` and `TMPDIR`. No secrets.
    pub env: BTreeMap<String, String>,
}

/// A built registry and its metadata.
#[derive(Debug, Clone, PartialEq)]
pub struct BuiltRegistry {
    /// Shell command, run in the directory of the built registry.
    pub start: String,
    pub input: InputMode,
    pub steps: Vec<StepMetadata>,
}

/// One call outside of a deployment: for metadata, or for an author who tries a step.
pub struct RegistryCallRequest<'a> {
    /// Directory of the built registry; read-only.
    pub registry: &'a Path,
    pub start: &'a str,
    pub input: InputMode,
    pub task: &'a Value,
    /// Writable for the process.
    pub scratch: &'a Path,
    /// `BERTH_WORKSPACE`.
    pub workspace: &'a Path,
    pub timeout: Duration,
    pub is_stopping: &'a dyn Fn() -> bool,
    pub confinement: &'a Confinement,
    pub env: &'a BTreeMap<String, String>,
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RegistryCallOutcome {
    Answered {
        /// Content of the file, not yet parsed.
        answer: Vec<u8>,
        /// How the process ended, unless it exited with 0.
        remark: Option<String>,
    },
    /// There was no valid answer file; the text is for users.
    Unanswered(String),
    TimedOut,
    Stopped,
}

/// Why a call could not be made.
#[derive(Debug, thiserror::Error)]
pub enum RegistryCallError {
    /// Nothing was started because the task is too long; the text is for users.
    #[error("{0}")]
    TooLong(String),
    #[error("{0}")]
    Machine(String),
}

/// Builds the task of a call that executes a step.
pub fn execution_task(
    step_type: &str,
    params: &serde_json::Map<String, Value>,
    approved_by: Option<&str>,
    polling_state: Option<&Value>,
) -> Value {
    let mut task = serde_json::json!({ "job": "EXECUTE", "type": step_type, "params": params });
    if let Some(approver) = approved_by {
        task["approvalContext"] = serde_json::json!({ "approved": true, "approverId": approver });
    }
    if let Some(state) = polling_state {
        task["pollingState"] = state.clone();
    }
    task
}
