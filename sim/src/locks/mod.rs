//! The lock of an environment under random commands.
//!
//! A [`LockCommand`] is data and names records by position, never by id, so the same sequence runs on any backend.
//! [`execute`] applies it to the rules through [`LockRecords`]. [`LockModel`] is the backend in memory;
//! [`LockOracle`] is the oracle.

mod answer;
pub mod cast;
mod check;
mod command;
mod execute;
mod explore;
pub(crate) mod generate;
mod model;
mod surroundings;

pub use self::check::{Checker, Violation};
pub use answer::Answer;
pub use command::{
    Ask, Command, Due, Nonce, Outcomes, Place, Turn, WhichDeployment, WhichSession, WhichTicket,
};
pub use execute::{Records, Subject, execute, subject};
pub use explore::{Explored, explore};
pub use generate::{generate, sequence};
pub use model::{Failed, Model, Step, check, run, trace};
pub use surroundings::Surroundings;
