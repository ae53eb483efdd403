//! A step registry: its repository, its builds, and when it is polled next.

use std::fmt;
use std::str::FromStr;

use crate::id::RegistryId;
use crate::name::CommitId;
use crate::pipeline::grammar::SecretName;
use crate::repository::{RETRY_SECONDS_MAX, RemoteUrl};
use crate::time::Timestamp;
use crate::webhook::UnknownWord;

use super::{InputMode, RegistryName, StepMetadata};

/// Poll interval of a healthy registry.
pub const REGISTRY_POLL_SECONDS: i64 = 300;

#[derive(Debug, Clone, PartialEq)]
pub struct Registry {
    pub id: RegistryId,
    /// Never changes, because definitions refer to it.
    pub name: RegistryName,
    pub url: RemoteUrl,
    /// A branch, tag or commit. `None` means the default branch.
    pub reference: Option<CommitId>,
    /// A secret of the organization.
    pub credential: Option<SecretName>,
    pub seen: RegistrySyncState,
    /// Increases with every change by a user, not with polls.
    pub version: i64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub deleted_at: Option<Timestamp>,
}

/// The result of the last poll and build.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RegistrySyncState {
    pub status: RegistryStatus,
    /// The commit of the ref.
    pub commit: Option<String>,
    /// The default version: the last successful build.
    pub current: Option<String>,
    /// A commit whose build failed; it is rebuilt only on request.
    pub failed_commit: Option<String>,
    /// The last successful poll.
    pub synced_at: Option<Timestamp>,
    /// Why the last poll or build failed.
    pub error: Option<String>,
    /// Consecutive failed polls.
    pub failures: i64,
    /// When to poll next.
    pub due_at: Option<Timestamp>,
}

impl Registry {
    /// The next poll after this many consecutive failures, with exponential backoff.
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
        /// Not polled since it was created or changed.
        #[default]
        Pending = "pending",
        Building = "building",
        /// The commit of its ref is built.
        Ready = "ready",
        /// The commit of its ref cannot be used. Earlier builds still can.
        Failed = "failed",
    }
}

words! {
    BuildStatus {
        Building = "building",
        Succeeded = "succeeded",
        Failed = "failed",
        /// The server stopped during the build; another build follows.
        Interrupted = "interrupted",
    }
}

/// One attempt to build a commit.
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

/// A successful build of a commit. Immutable.
#[derive(Debug, Clone, PartialEq)]
pub struct RegistryVersion {
    pub registry: RegistryId,
    pub commit: String,
    /// The number of its build.
    pub number: i64,
    /// Digest of the build.
    pub digest: String,
    pub start: String,
    pub input: InputMode,
    pub steps: Vec<StepMetadata>,
    pub built_at: Timestamp,
}

/// An abbreviated hash for display.
pub fn short_hash(commit: &str) -> &str {
    const SHORT_CHARS: usize = 10;
    commit.get(..SHORT_CHARS).unwrap_or(commit)
}
