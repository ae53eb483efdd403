//! Built-in step types, their network access, and the policy for unknown outcomes.
//!
//! The crate `berth-definition` describes their parameters.

mod kind;
mod network;

pub use kind::{BuiltinStepType, OnLost};
pub use network::{NetworkAccess, is_request};
