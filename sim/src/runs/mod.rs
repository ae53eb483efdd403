//! The run of a deployment under random plans and random commands.
//!
//! A [`Command`] is data and names steps by their place, never by id. [`Scene`] puts it to the rules, writes what they
//! decide into [`Records`], which behave as a database does, and lets the [`Checker`] look. [`Scenario`] is a plan with
//! a script of outcomes, crashes and answers, for which [`expected`] says how everything must end without asking the
//! rules. [`line`] lets several runs of one pipeline want the same stages, and [`calls`] has
//! custom steps, which are called until they are done.

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
