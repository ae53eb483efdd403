//! Tests of the crate's public API.

#![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests read logs and run git")]

mod diffs;
mod docs;
mod fixes;
mod hostile;
mod logs;
mod property;
