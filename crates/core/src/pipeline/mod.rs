//! A pipeline: its definition (model, parsing, checking) and its record (created, stopped, resumed, deleted).
//!
//! A definition travels one way: text → tree with byte ranges (`tree.rs`, budgets) → typed model with all
//! problems collected (`read/`, `cursor.rs`) → checks between its parts (`check/`) → [`Parsed`].
//! Every problem is a [`Diagnostic`] that points at the line it speaks of.

pub mod alone;
mod check;
mod cursor;
pub mod diagnostic;
pub mod grammar;
pub mod limits;
pub mod model;
pub mod origin;
pub mod parse;
mod read;
mod report;
mod scalar;
mod schema;
pub mod seconds;
pub mod secrets;
pub mod state;
mod tree;
pub mod window;
pub(crate) mod wording;
mod write;

pub use diagnostic::{Diagnostic, Severity};
pub use model::Definition;
pub use parse::{Parsed, diagnostics_at, parse, parse_with};
pub use schema::schema;
pub use wording::nearest;
pub use write::write;
