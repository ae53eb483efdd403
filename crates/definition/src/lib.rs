//! The pipeline definition language: parses, checks, describes and plans definitions.
//!
//! Processing: text → tree with byte ranges, within size limits (`tree.rs`) → typed model, collecting all problems
//! (`read/`, `cursor.rs`) → checks between its parts (`check/`) → [`ParsedDefinition`]. Every problem becomes a
//! [`DefinitionDiagnostic`] with a line and a column. [`planning`] turns a definition into a plan.
//!
//! No I/O, no clock, no randomness: `clippy.toml` bans such calls.

mod check;
mod cursor;
pub mod custom_step;
mod diagnostic;
pub mod local_run;
mod obstacles;
mod parse;
pub mod planning;
mod read;
mod report;
mod scalar;
mod schema;
pub mod step;
mod tree;
mod write;

pub use diagnostic::{DefinitionDiagnostic, DiagnosticSeverity};
pub use parse::{ParsedDefinition, diagnostics_at, parse, parse_with};
pub use schema::schema;
pub use write::write;
