//! A registry: where custom steps come from, what was built of it, and when it is looked at again.

use std::fmt;
use std::str::FromStr;

use crate::id::RegistryId;
use crate::name::CommitId;
use crate::pipeline::grammar::SecretName;
use crate::repository::{RETRY_SECONDS_MAX, RemoteUrl};
use crate::time::Timestamp;
use crate::webhook::UnknownWord;

use super::{InputMode, RegistryName, StepMetadata};

/// Between two looks at one that is all right.
pub const REGISTRY_POLL_SECONDS: i64 = 300;

#[derive(Debug, Clone, PartialEq)]
pub struct Registry {
    pub id: RegistryId,
    /// Never changes: definitions have it.
    pub name: RegistryName,
    pub url: RemoteUrl,
    /// A branch, a tag or a commit. Absent: the default branch.
    pub reference: Option<CommitId>,
    /// A secret of the organization.
    pub credential: Option<SecretName>,
    pub seen: Seen,
    /// Rises with every change somebody made, not with every look.
    pub version: i64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub deleted_at: Option<Timestamp>,
}

/// What the last look found, and what came of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Seen {
    pub status: RegistryStatus,
    /// What the ref pointed at.
    pub commit: Option<String>,
    /// The version that a definition means which names none: the last one that was built well.
    pub current: Option<String>,
    /// Its build failed; it is built again when somebody asks, not with every look.
    pub failed_commit: Option<String>,
    /// The last time it could be read.
    pub synced_at: Option<Timestamp>,
    /// Why the last look or build failed.
    pub error: Option<String>,
    /// How often in a row it could not be read.
    pub failures: i64,
    /// When to look again.
    pub due_at: Option<Timestamp>,
}

impl Registry {
    /// When to look again after so many failures in a row: each doubles the wait.
    pub fn next_look(&self, failures: i64, now: Timestamp) -> Timestamp {
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
        /// Nobody has looked since it was made or changed.
        #[default]
        Pending = "pending",
        Building = "building",
        /// What its ref points at can be used.
        Ready = "ready",
        /// What its ref points at cannot be used. What was built before still can.
        Failed = "failed",
    }
}

words! {
    BuildStatus {
        Building = "building",
        Succeeded = "succeeded",
        Failed = "failed",
        /// The server stopped meanwhile; another build follows.
        Interrupted = "interrupted",
    }
}

/// One try to build a commit.
#[derive(Debug, Clone, PartialEq)]
pub struct Build {
    pub registry: RegistryId,
    /// From 1, in each registry.
    pub number: i64,
    pub status: BuildStatus,
    pub commit: String,
    pub started_at: Timestamp,
    pub finished_at: Option<Timestamp>,
    pub error: Option<String>,
}

/// A commit that was built well. Nothing ever changes in it.
#[derive(Debug, Clone, PartialEq)]
pub struct Version {
    pub registry: RegistryId,
    pub commit: String,
    /// Of the build it came from.
    pub number: i64,
    /// Of what was built.
    pub digest: String,
    pub start: String,
    pub input: InputMode,
    pub steps: Vec<StepMetadata>,
    pub built_at: Timestamp,
}

/// The beginning of a hash, as people read it.
pub fn short(commit: &str) -> &str {
    const SHORT_CHARS: usize = 10;
    commit.get(..SHORT_CHARS).unwrap_or(commit)
}
