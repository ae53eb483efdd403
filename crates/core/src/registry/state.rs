//! A step registry: its repository, its builds, and when it is polled next for new commits.

use std::fmt;
use std::str::FromStr;

use crate::id::RegistryId;
use crate::name::CommitId;
use crate::pipeline::grammar::SecretName;
use crate::repository::{RETRY_SECONDS_MAX, RemoteUrl};
use crate::time::Timestamp;
use crate::webhook::UnknownWord;

use super::{InputMode, RegistryName, StepMetadata};

/// Seconds between polls of a registry whose last poll succeeded.
pub const REGISTRY_POLL_SECONDS: i64 = 300;

#[derive(Debug, Clone, PartialEq)]
pub struct Registry {
    pub id: RegistryId,
    /// Never changes, because definitions refer to it.
    pub name: RegistryName,
    pub url: RemoteUrl,
    /// A branch, tag or commit. `None` means the default branch.
    pub reference: Option<CommitId>,
    /// Name of the organization's secret that contains the credential for the repository.
    pub credential: Option<SecretName>,
    pub seen: RegistrySyncState,
    /// Increases when a user changes the registry, not when it is polled.
    pub version: i64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub deleted_at: Option<Timestamp>,
}

/// The result of the last poll and build.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RegistrySyncState {
    pub status: RegistryStatus,
    /// The commit that `reference` points to.
    pub commit: Option<String>,
    /// The version that definitions use by default: the commit of the last successful build.
    pub current: Option<String>,
    /// The commit whose build failed. It is built again only on request.
    pub failed_commit: Option<String>,
    /// When the last successful poll took place.
    pub synced_at: Option<Timestamp>,
    /// Why the last poll or build failed.
    pub error: Option<String>,
    /// Consecutive failed polls.
    pub failures: i64,
    /// When to poll next.
    pub due_at: Option<Timestamp>,
}

impl Registry {
    /// When to poll next after this number of consecutive failures; exponential backoff.
    pub fn next_poll_at(&self, failures: i64, now: Timestamp) -> Timestamp {
        let doublings = u32::try_from(failures).unwrap_or(0).min(16);
        now.plus_seconds(REGISTRY_POLL_SECONDS.saturating_mul(1 << doublings).min(RETRY_SECONDS_MAX))
    }
}

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$about:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name { $($(#[$about])* $variant),+ }

        impl $name {
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            pub const fn as_str(self) -> &'static str {
                match self { $($name::$variant => $text),+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl FromStr for $name {
            type Err = UnknownWord;
            fn from_str(text: &str) -> Result<Self, UnknownWord> {
                $name::ALL.iter().copied().find(|it| it.as_str() == text).ok_or(UnknownWord)
            }
        }
    };
}

words! {
    #[derive(Default)]
    RegistryStatus {
        /// Not polled yet since the registry was created or changed.
        #[default]
        Pending = "pending",
        Building = "building",
        /// The commit that the registry's ref points to is built.
        Ready = "ready",
        /// The commit that the registry's ref points to cannot be used. Earlier builds still can.
        Failed = "failed",
    }
}

words! {
    BuildStatus {
        Building = "building",
        Succeeded = "succeeded",
        Failed = "failed",
        /// The server stopped during the build; the commit will be built again.
        Interrupted = "interrupted",
    }
}

/// One attempt to build a commit of a registry.
#[derive(Debug, Clone, PartialEq)]
pub struct RegistryBuild {
    pub registry: RegistryId,
    /// Counts from 1 per registry.
    pub number: i64,
    pub status: BuildStatus,
    pub commit: String,
    pub started_at: Timestamp,
    pub finished_at: Option<Timestamp>,
    pub error: Option<String>,
}

/// A commit of a registry that was built successfully. Never changes.
#[derive(Debug, Clone, PartialEq)]
pub struct RegistryVersion {
    pub registry: RegistryId,
    pub commit: String,
    /// The number of the build that produced it.
    pub number: i64,
    /// Digest of the built files.
    pub digest: String,
    pub start: String,
    pub input: InputMode,
    pub steps: Vec<StepMetadata>,
    pub built_at: Timestamp,
}

/// Abbreviates a commit hash for display.
pub fn short_hash(commit: &str) -> &str {
    const SHORT_CHARS: usize = 10;
    commit.get(..SHORT_CHARS).unwrap_or(commit)
}
