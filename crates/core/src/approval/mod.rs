//! Approvals: enough people say yes to one thing, and to nothing else.
//!
//! An approval is bound to the digest of what it was asked for. It is asked for once, voted on by distinct people, and
//! ends once: approved, rejected, expired, or lapsed because what it was for has changed or is over.

mod decide;
mod people;
#[cfg(test)]
mod property;
mod state;

pub use decide::{Ballot, Request, expire, lapse, recount, request, still_holds, vote};
pub use people::{ChangeAuthors, Electorate, Tally, Voter, admits};
pub use state::{Approval, Choice, Lapse, Status, Vote};
