//! The build backend of registries, injected at start: the server itself knows neither sandboxes nor package managers.

use std::path::Path;
use std::time::Duration;

use berth_core::registry::{InputMode, StepMetadata};

/// Calls block; each runs on its own thread.
pub trait RegistryBuilder: Send + Sync {
    /// Builds the checkout in place and queries its step metadata.
    fn build(&self, asked: &BuildRequest<'_>, log: &mut dyn FnMut(&[u8])) -> Result<BuildOutput, BuildError>;

    /// Removes the files of a build, including deep and unusual directories.
    fn clear(&self, dir: &Path);
}

pub struct BuildRequest<'a> {
    /// The checkout.
    pub source: &'a Path,
    /// An empty directory for temporary files.
    pub scratch: &'a Path,
    /// For the whole build.
    pub timeout: Duration,
    /// Size limit of the result.
    pub bytes_max: u64,
    pub is_stopping: &'a dyn Fn() -> bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct BuildOutput {
    /// A shell command, run in the directory of the build.
    pub start: String,
    pub input: InputMode,
    pub steps: Vec<StepMetadata>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BuildError {
    /// Error in the registry; shown to users.
    Failed(String),
    /// Error of the machine; the same build may succeed later.
    Machine(String),
    /// The server is stopping.
    Stopped,
}
