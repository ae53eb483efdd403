//! The audit log: appending events, and its hash chain, search index, verification and export.

pub(crate) mod append;
pub mod export;
mod hash_chain;
mod stored_chain;
pub(crate) mod terms;
mod verify;

pub use hash_chain::{AuditHead, InvalidHead, NO_HASH, canonical_line, seal_events};
pub use stored_chain::StoredCheck;
pub use verify::{AuditFault, AuditProblem, AuditVerdict, ChainVerifier, SealedEvent};
