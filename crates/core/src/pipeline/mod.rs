//! Pipelines: the model of a definition, and the state of a pipeline (created, stopped, resumed, deleted).
//!
//! The crate `berth-definition` parses, checks and plans definitions.

pub mod checkout;
pub mod container;
pub mod grammar;
pub mod image;
pub mod limits;
pub mod model;
pub mod origin;
pub mod seconds;
pub mod secrets;
pub mod state;
pub mod window;

pub use model::PipelineDefinition;
