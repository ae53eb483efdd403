//! The build backend for step registries. It is injected at startup, because the server crate contains no code for
//! sandboxes or package managers.

use std::path::Path;
use std::time::Duration;

use berth_core::registry::{InputMode, StepMetadata};

/// Builds step registries. The methods block, so each call runs on a separate thread.
pub trait RegistryBuilder: Send + Sync {
    /// Builds the checkout in place and reads the metadata of its steps.
    fn build(&self, asked: &BuildRequest<'_>, log: &mut dyn FnMut(&[u8])) -> Result<BuildOutput, BuildError>;

    /// Removes the files of a build, including deeply nested directories and unusual names.
    fn clear(&self, dir: &Path);
}

pub struct BuildRequest<'a> {
    /// Directory with the checkout.
    pub source: &'a Path,
    /// An empty directory for temporary files.
    pub scratch: &'a Path,
    /// Timeout for the whole build.
    pub timeout: Duration,
    /// Maximum size of the build result.
    pub bytes_max: u64,
    pub is_stopping: &'a dyn Fn() -> bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct BuildOutput {
    /// The shell command that starts a step of the registry, run in the build directory.
    pub start: String,
    pub input: InputMode,
    pub steps: Vec<StepMetadata>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BuildError {
    /// An error in the registry. Shown to users.
    Failed(String),
    /// An error of the machine. The same build may succeed later.
    Machine(String),
    /// The server is stopping.
    Stopped,
}
