//! Approvals: enough people approve one specific piece of content.
//!
//! An approval is bound to the digest of its content. It is requested once, each person votes at most once, and it ends
//! once: approved, rejected, expired, or lapsed because its content has changed or is no longer needed.

mod decide;
mod people;
#[cfg(test)]
mod property;
mod state;

pub use decide::{NewApproval, VoteRequest, expire, is_still_valid, lapse, recount, request, vote};
pub use people::{ApprovalElectorate, ChangeAuthors, VoteTally, VotingAccount, admits};
pub use state::{Approval, ApprovalChoice, ApprovalState, LapseCause, RecordedVote};
