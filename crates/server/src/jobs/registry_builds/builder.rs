//! What builds a registry. The server knows neither sandboxes nor package managers: whoever starts it gives it one.

use std::path::Path;
use std::time::Duration;

use berth_core::registry::{InputMode, StepMetadata};

/// Calls block; each has a thread of its own.
pub trait Builder: Send + Sync {
    /// Builds what was checked out and asks it for its steps. What lies in `source` afterwards is what was built.
    fn build(&self, asked: &BuildAsked<'_>, log: &mut dyn FnMut(&[u8])) -> Result<Built, BuildFailed>;

    /// Removes what a build left, however deep and strange it is.
    fn clear(&self, dir: &Path);
}

pub struct BuildAsked<'a> {
    /// The checkout.
    pub source: &'a Path,
    /// Empty, for what is needed meanwhile.
    pub scratch: &'a Path,
    /// For everything together.
    pub timeout: Duration,
    /// Of what is built.
    pub bytes_max: u64,
    pub is_stopping: &'a dyn Fn() -> bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Built {
    /// Shell text, run in the directory of what was built.
    pub start: String,
    pub input: InputMode,
    pub steps: Vec<StepMetadata>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BuildFailed {
    /// For people: what was wrong with the registry.
    Failed(String),
    /// For people: the registry is not to blame, the same build may succeed another time.
    Machine(String),
    /// The server stops.
    Stopped,
}
