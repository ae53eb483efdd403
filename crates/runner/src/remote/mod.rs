//! A runner on another machine than its server: the same work, asked for by HTTP.
//!
//! ```text
//! register ── token ──> credential, kept in the work directory
//! hello ── what the process before left ──> times      then the Link of every runner, a request per call
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

/// A random word for a process of a runner.
pub fn new_boot() -> std::io::Result<String> {
    crate::chance::name()
}
