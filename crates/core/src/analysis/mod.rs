//! Failure analyses, requested by a member or by the pipeline, and the fix pull requests made from them.
//!
//! The result of an analysis is untrusted data: it is stored and passed on, never interpreted here.

mod pull_request;
mod settings;
mod state;

pub use pull_request::{FixPullRequest, NewPullRequest, PullRequestState};
pub use settings::{Limits, Model, Provider, Settings};
pub use state::{Analysis, Answer, NewAnalysis, State, SuggestedFix, Usage};

/// State transitions of fix pull requests.
pub mod pull {
    pub use super::pull_request::{End, ask, branch, ended, failed, opened};
}
