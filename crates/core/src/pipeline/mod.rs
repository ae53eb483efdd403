//! A pipeline: the model of its definition, and its record (created, stopped, resumed, deleted).
//!
//! Definitions are parsed, checked and planned in the crate `berth-definition`.

pub mod grammar;
pub mod limits;
pub mod model;
pub mod origin;
pub mod seconds;
pub mod secrets;
pub mod state;
pub mod window;

pub use model::Definition;
