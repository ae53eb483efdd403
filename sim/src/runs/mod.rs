//! The run of a deployment under random plans and commands.
//!
//! A [`RunCommand`] is data and refers to steps by position, never by id. [`RunSimulation`] applies it to the rules, writes the
//! decisions to [`RunRecords`], which behave like a database, and lets the [`RunOracle`] check them. A [`Scenario`] is
//! a plan with a script of outcomes, crashes and people's answers; [`expected_ending`] computes how it must end, without
//! calling the rules. In [`stage_queue`] several runs of one pipeline compete for its stages. [`calls`] simulates
//! custom steps, which are called until they are done.

pub mod calls;
mod check;
mod command;
mod expected;
mod generate;
mod plans;
mod records;
mod report;
mod scenario;
mod simulation;
pub mod stage_queue;

pub use check::{RunOracle, RunViolation};
pub use command::{GrantNonce, ReportNonce, RunCommand, SimulatedEnd, StepPick, WhichStage};
pub use expected::{ScenarioEnding, expected_ending};
pub use generate::{RunSequence, sequence};
pub use plans::{PlanShape, RunCondition, StepShape, plan, shape};
pub use records::{NonceConflict, RunRecords};
pub use report::{FailedRunSequence, check, compare, run, trace};
pub use scenario::{Scenario, play, scenario};
pub use simulation::{RunAnswer, RunDecision, RunRequest, RunSimulation};
