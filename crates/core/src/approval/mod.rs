//! Approvals: a quorum of people approves one specific piece of content.
//!
//! An approval is bound to the digest of its content. It is requested once, voted on by distinct people, and ends once:
//! approved, rejected, expired, or lapsed because its content has changed or is no longer needed.

mod decide;
mod people;
#[cfg(test)]
mod property;
mod state;

pub use decide::{VoteRequest, NewApproval, expire, lapse, recount, request, is_still_valid, vote};
pub use people::{ChangeAuthors, ApprovalElectorate, VoteTally, VotingAccount, admits};
pub use state::{Approval, ApprovalChoice, LapseCause, ApprovalState, RecordedVote};
