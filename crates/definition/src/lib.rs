//! The pipeline definition language: parse, check, describe and plan definitions.
//!
//! A definition travels one way: text → tree with byte ranges (`tree.rs`, budgets) → typed model with all
//! problems collected (`read/`, `cursor.rs`) → checks between its parts (`check/`) → [`Parsed`].
//! Every problem is a [`Diagnostic`] with a line and a column. [`planning`] turns a definition into a plan.
//!
//! No IO, no clock, no randomness: `clippy.toml` bans the calls that would break this.

pub mod alone;
mod check;
mod cursor;
pub mod custom_step;
mod diagnostic;
mod parse;
pub mod planning;
mod read;
mod report;
mod scalar;
mod schema;
pub mod step;
mod tree;
mod write;

pub use diagnostic::{Diagnostic, Severity};
pub use parse::{Parsed, diagnostics_at, parse, parse_with};
pub use schema::schema;
pub use write::write;
