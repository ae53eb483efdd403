//! Remote runners: the [`RunnerLink`](berth_api::runner::RunnerLink) over HTTP.
//!
//! ```text
//! register ── token ──> credential, stored in the work directory
//! hello ── the spool of the previous process ──> timeouts      then one request per call of the link
//! ```

mod archive;
mod client;
mod credential;
mod fences;
mod link;
mod spool;
mod transfer;
mod work_dir;

pub use client::{RequestError, ServerClient};
pub use credential::RunnerCredential;
pub(crate) use fences::EnvironmentHolder;
pub use fences::SeenFences;
pub use link::RemoteLink;
pub(crate) use spool::StartDecision;
pub use spool::{AttemptSpool, RecoveredSpool};
pub use work_dir::RemoteWorkDir;

/// Returns a random id for a runner process.
pub fn new_boot() -> std::io::Result<String> {
    crate::random::random_hex()
}
