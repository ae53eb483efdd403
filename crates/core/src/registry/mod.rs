//! Step registries: git repositories of custom steps, and the protocol that their programs speak.
//!
//! Every call runs a new process, and nothing stays in memory between calls: the step returns its state and receives it
//! with the next call.

mod metadata;
mod name;
mod offer;
mod resolve;
mod response;
mod state;

pub use metadata::StepMetadata;
pub use name::{RegistryName, TypeRef, step_key};
pub use offer::{AvailableStep, AvailableSteps, InputMode, PinnedStep};
pub use resolve::{COMMIT_PREFIX_CHARS_MIN, VersionQuery, resolve};
pub use response::{
    CustomStepResponse, POLL_PAUSE_MS_DEFAULT, POLL_PAUSE_MS_MAX, POLL_PAUSE_MS_MIN, POLLING_STATE_BYTES_MAX,
};
pub use state::{
    BuildStatus, REGISTRY_POLL_SECONDS, Registry, RegistryBuild, RegistryStatus, RegistrySyncState,
    RegistryVersion, short_hash,
};

/// The Linux kernel's size limit for one command-line argument.
pub const REGISTRY_ARG_BYTES_MAX: usize = 128 * 1024;
