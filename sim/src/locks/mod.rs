//! The lock on an environment under random commands.
//!
//! A [`Command`] is data and names records by their place in history, never by id: so the same sequence runs on any
//! backend. [`execute`] puts one to the rules through [`Records`], which is all it knows of where records are kept.
//! [`Model`] is the backend in memory; [`Checker`] is the oracle.

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
