//! Analyses: why a step failed, asked for by somebody or by its pipeline, and the pull requests that came of them.
//!
//! What an analysis finds is somebody else's words: data, carried along and never looked into here.

mod pull_request;
mod settings;
mod state;

pub use pull_request::{FixPullRequest, NewPullRequest, PullRequestState};
pub use settings::{Limits, Model, Provider, Settings};
pub use state::{Analysis, Answer, NewAnalysis, State, SuggestedFix, Usage};

/// Decisions about pull requests.
pub mod pull {
    pub use super::pull_request::{End, ask, branch, ended, failed, opened};
}
