//! Built-in step types, their network access, and the policy for unknown outcomes.
//!
//! The crate `berth-definition` describes their parameters.

mod kind;
mod network;

pub use kind::{Builtin, OnLost};
pub use network::{Network, is_request};
