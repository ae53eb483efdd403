//! Remote runners: the [`Link`](berth_api::runner::Link) over HTTP.
//!
//! ```text
//! register ── token ──> credential, stored in the work directory
//! hello ── the spool of the previous process ──> timeouts      then one request per call of the Link
//! ```

mod archive;
mod client;
mod credential;
mod home;
mod link;
mod seen;
mod spool;
mod transfer;

pub use client::{RequestError, ServerClient};
pub use credential::RunnerCredential;
pub use home::RemoteWorkDir;
pub use link::RemoteLink;
pub(crate) use seen::EnvironmentHolder;
pub use seen::SeenFences;
pub(crate) use spool::StartDecision;
pub use spool::{AttemptSpool, RecoveredSpool};

/// Returns a random id for a runner process.
pub fn new_boot() -> std::io::Result<String> {
    crate::chance::random_hex()
}
