//! Step registries on the machine that runs them: how one is built, asked, and called.
//!
//! A registry is a directory with a program in it. One process per call: it gets its task in an argument (or a file),
//! writes its answer into a file, and what it logs into another one. The file is the answer, whatever the process says
//! with its exit code, and also when it does not end.

mod build;
mod cache;
mod call;
mod exchange;
mod file;
mod journal;
mod local;
mod manifest;
mod size;
mod step;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use berth_core::registry::{InputMode, StepMetadata};
use serde_json::Value;

use crate::sandbox::Confinement;

pub(crate) use cache::Cache;
pub(crate) use step::run as run_step;

pub use build::{BuildFailed, build};
pub use local::call;
pub use manifest::{MANIFEST_NAME, Manifest};

/// Of what a build or a local call prints.
pub const BUILD_LOG_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// A registry that is asked for its steps has this long.
pub const METADATA_TIMEOUT: Duration = Duration::from_secs(60);
/// Of `build` and `start`.
pub const COMMAND_BYTES_MAX: usize = 8 * 1024;
/// A step's answer; metadata may be longer.
pub const ANSWER_BYTES_MAX: usize = 2 * 1024 * 1024;
/// How many outputs one step may have.
pub const OUTPUTS_MAX: usize = 100;
/// Fetched registries that a runner keeps.
pub const REGISTRIES_KEPT_MAX: usize = 16;
pub const REGISTRIES_KEPT_BYTES_MAX: u64 = 8 * 1024 * 1024 * 1024;

/// What is needed to build a registry. Nothing of this process's own environment comes in.
pub struct BuildRequest<'a> {
    /// The checkout. The build happens in it, and what is there afterwards is the built registry.
    pub source: PathBuf,
    /// An empty directory for what only the build needs. It may be removed afterwards.
    pub scratch: PathBuf,
    /// For everything together.
    pub timeout: Duration,
    /// Of the built registry.
    pub bytes_max: u64,
    pub is_stopping: &'a dyn Fn() -> bool,
    /// `source` and `scratch` may lie in what it hides.
    pub confinement: &'a Confinement,
    /// Directories besides `source` and `scratch` that the build may change, such as a cache.
    pub writable: Vec<PathBuf>,
    /// Variables besides `PATH`, `HOME` and `TMPDIR`. No secrets.
    pub env: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Built {
    /// Shell text, run in the directory of what was built.
    pub start: String,
    pub input: InputMode,
    pub steps: Vec<StepMetadata>,
}

/// One call outside of a deployment: for metadata, or by an author who tries a step.
pub struct CallRequest<'a> {
    /// Of the built registry; it is only read.
    pub registry: &'a Path,
    pub start: &'a str,
    pub input: InputMode,
    pub task: &'a Value,
    /// The process may write here.
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
pub enum Called {
    Answered {
        /// What stands in the file; whether it is an answer of the protocol is for the reader to say.
        answer: Vec<u8>,
        /// How the process ended, unless it was with 0.
        remark: Option<String>,
    },
    /// Without a file, or with something else in its place. The text is for people.
    Unanswered(String),
    TimedOut,
    Stopped,
}

#[derive(Debug, thiserror::Error)]
pub enum CallFailed {
    /// Nothing was started: the task cannot be handed over. For people.
    #[error("{0}")]
    TooLong(String),
    #[error("{0}")]
    Machine(String),
}

/// What a step is called with.
pub fn task(
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
