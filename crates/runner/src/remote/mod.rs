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

pub use client::{Answered, Client};
pub use credential::Credential;
pub use home::Home;
pub use link::Remote;
pub(crate) use seen::Holder;
pub use seen::Seen;
pub(crate) use spool::Begins;
pub use spool::{Left, Spool};

/// Returns a random id for a runner process.
pub fn new_boot() -> std::io::Result<String> {
    crate::chance::name()
}
