//! Step types: what each is called, which params it takes and how it behaves when its outcome is unknown.
//!
//! Each built-in type is one file and one line in [`spec::BUILTINS`].

mod approval;
mod dummy;
mod http_check;
mod network;
pub mod schema;
mod script;
mod soak;
pub mod spec;
mod wait_for;

pub use network::{Network, is_request};
pub use schema::{ParamProblem, ParamsSchema, SchemaRefused};
pub use spec::{BUILTINS, Builtin, OnLost, StepSpec};
