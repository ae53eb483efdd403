//! Step registries on the runner's machine: building them, and calling them for metadata and for steps.
//!
//! A registry is a directory with a program. Each call is one process. The process gets its task in an argument or a
//! file, and writes its answer to one file and its log to another. The answer file determines the result, regardless of
//! the exit code, and even if the process hangs afterwards.

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

/// Maximum output of a build or a local call, in bytes.
pub const BUILD_LOG_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Timeout of the call for metadata.
pub const METADATA_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum length of a `build` or `start` command.
pub const COMMAND_BYTES_MAX: usize = 8 * 1024;
/// Maximum size of a step's answer. Metadata may be larger.
pub const ANSWER_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Maximum number of outputs of one step.
pub const OUTPUTS_MAX: usize = 100;
/// Maximum number of registries in a runner's cache.
pub const REGISTRIES_KEPT_MAX: usize = 16;
/// Maximum total size of the registries in a runner's cache.
pub const REGISTRIES_KEPT_BYTES_MAX: u64 = 8 * 1024 * 1024 * 1024;

/// Parameters of a build. The build does not inherit the environment of this process.
pub struct RegistryBuildRequest<'a> {
    /// The source checkout. The build runs in this directory and turns it into the built registry.
    pub source: PathBuf,
    /// An empty directory for the build's temporary files. The caller removes it afterwards.
    pub scratch: PathBuf,
    /// Timeout for all build commands and the call for metadata together.
    pub timeout: Duration,
    /// Maximum size of the built registry.
    pub bytes_max: u64,
    pub is_stopping: &'a dyn Fn() -> bool,
    /// The sandbox. It may hide a parent directory of `source` and `scratch`; both remain accessible.
    pub confinement: &'a Confinement,
    /// Additional directories that the build may write to, such as a cache.
    pub writable: Vec<PathBuf>,
    /// Environment variables in addition to `PATH`, `HOME` and `TMPDIR`. Must not contain secrets.
    pub env: BTreeMap<String, String>,
}

/// A built registry and its metadata.
#[derive(Debug, Clone, PartialEq)]
pub struct BuiltRegistry {
    /// Shell command that starts the registry. It runs in the directory of the built registry.
    pub start: String,
    pub input: InputMode,
    pub steps: Vec<StepMetadata>,
}

/// A call outside of a deployment: for metadata, or for an author who is trying out a step.
pub struct RegistryCallRequest<'a> {
    /// Directory of the built registry. The call cannot write to it.
    pub registry: &'a Path,
    pub start: &'a str,
    pub input: InputMode,
    pub task: &'a Value,
    /// Directory that the process can write to.
    pub scratch: &'a Path,
    /// Value of `BERTH_WORKSPACE`.
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
        /// Content of the answer file, not parsed yet.
        answer: Vec<u8>,
        /// How the process ended, if it did not exit with status 0.
        remark: Option<String>,
    },
    /// The process wrote no valid answer file. The text is shown to users.
    Unanswered(String),
    TimedOut,
    Stopped,
}

/// Why a call could not be made.
#[derive(Debug, thiserror::Error)]
pub enum RegistryCallError {
    /// The task is too long, so nothing was started. The text is shown to users.
    #[error("{0}")]
    TooLong(String),
    #[error("{0}")]
    Machine(String),
}

/// Builds the task for a call that executes a step.
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
