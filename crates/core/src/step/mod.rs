//! Built-in step types, what their steps may reach, and what happens to one whose outcome is unknown.
//!
//! Their parameters are described in the crate `berth-definition`.

mod kind;
mod network;

pub use kind::{Builtin, OnLost};
pub use network::{Network, is_request};
