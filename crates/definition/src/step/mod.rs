//! The params of each built-in step type, as JSON Schema.
//!
//! Each type is one file and one entry in [`spec::BUILTINS`].

mod approval;
mod dummy;
mod http_check;
mod image_build;
mod kubernetes_apply;
pub mod params;
mod script;
mod soak;
pub mod spec;
mod wait_for;

pub use params::{ParamProblem, ParamsSchema, SchemaRefused};
pub use spec::{BUILTINS, StepSpec};
