//! Step registries: git repositories of custom steps, and the contract with the programs in them.
//!
//! One process per call, and nothing lives between calls: what a step wants to remember it answers, and is given back
//! with the next call.

mod answer;
mod metadata;
mod name;
mod offer;
mod resolve;
mod state;

pub use answer::{
    Answer, POLL_PAUSE_MS_DEFAULT, POLL_PAUSE_MS_MAX, POLL_PAUSE_MS_MIN, POLLING_STATE_BYTES_MAX,
};
pub use metadata::StepMetadata;
pub use name::{RegistryName, TypeRef, step_key};
pub use offer::{InputMode, Offer, Offers, Pinned};
pub use resolve::{COMMIT_PREFIX_CHARS_MIN, Wanted, resolve};
pub use state::{Build, BuildStatus, REGISTRY_POLL_SECONDS, Registry, RegistryStatus, Seen, Version, short};

/// One argument of a program cannot be longer; the kernel's own limit.
pub const REGISTRY_ARG_BYTES_MAX: usize = 128 * 1024;
