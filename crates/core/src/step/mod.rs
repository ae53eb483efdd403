//! Built-in step types, their network access, and what to do when an attempt's outcome is unknown.
//!
//! The crate `berth-definition` describes their params.

mod kind;
mod network;

pub use kind::{BuiltinStepType, OnLost};
pub use network::{NetworkAccess, is_request};
