//! Step registries: git repositories of custom steps, and the protocol of their programs.
//!
//! Every call is one process without state in between: a step returns its state and gets it back with the next call.

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

/// The kernel's limit for one argument of a program.
pub const REGISTRY_ARG_BYTES_MAX: usize = 128 * 1024;
