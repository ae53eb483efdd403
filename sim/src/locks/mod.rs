//! The lock of an environment under random commands.
//!
//! A [`LockCommand`] is data and refers to records by position, never by id, so the same sequence runs on any backend.
//! [`execute`] applies it to the rules through [`LockRecords`]. [`LockModel`] is the in-memory backend, and
//! [`LockOracle`] checks every step.

mod answer;
mod check;
mod command;
mod execute;
mod explore;
pub mod fixtures;
pub(crate) mod generate;
mod model;
mod surroundings;

pub use self::check::{LockOracle, LockViolation};
pub use answer::LockAnswer;
pub use command::{
    DueMoment, EnvironmentIndex, LockCommand, LockRequest, ReportedOutcome, WhichDeployment, WhichNonce,
    WhichSession, WhichTicket, WorldChange,
};
pub use execute::{LockRecords, RequestSubject, execute, find_subject};
pub use explore::{ExplorationStats, explore};
pub use generate::{generate, sequence};
pub use model::{FailedLockSequence, LockModel, LockStep, check, run, trace};
pub use surroundings::Surroundings;
