//! The run of a deployment under random plans and commands.
//!
//! A [`RunCommand`] is data and names steps by position, never by id. [`Scene`] applies it to the rules, writes
//! the decisions to [`RunRecords`], which behave like a database, and lets the [`RunOracle`] check. A [`Scenario`]
//! is a plan with a script of outcomes, crashes and answers, for which [`expected`] computes the end without the
//! rules. [`line`] lets several runs of one pipeline compete for its stages, and [`calls`] has custom steps, which
//! are called until they are done.

pub mod calls;
mod check;
mod command;
mod expected;
mod generate;
pub mod line;
mod plans;
mod records;
mod scenario;
mod scene;
mod tell;

pub use check::{Checker, Violation};
pub use command::{Command, Ends, GrantNonce, Pick, ReportNonce, WhichStage};
pub use expected::{Ending, expected};
pub use generate::{Sequence, sequence};
pub use plans::{Runs, Shape, StepShape, plan, shape};
pub use records::{Conflict, Records};
pub use scenario::{Scenario, play, scenario};
pub use scene::{Answer, Asked, Scene, Told};
pub use tell::{Failed, check, compare, run, trace};
