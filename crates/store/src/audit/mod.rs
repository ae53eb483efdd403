//! The audit log: appending events, their hash chain, the search index, verification and exports.

pub(crate) mod append;
pub mod export;
mod hash_chain;
mod stored;
pub(crate) mod terms;
mod verify;

pub use hash_chain::{Head, InvalidHead, NO_HASH, line, seal};
pub use stored::StoredCheck;
pub use verify::{Problem, Reason, Sealed, Verdict, Verifier};
