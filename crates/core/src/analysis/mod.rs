//! Failure analyses and the pull requests that apply their fixes. A member requests an analysis, or the pipeline does
//! so automatically.
//!
//! The result of an analysis is untrusted data: this crate stores it and passes it on, but never interprets it.

mod pull_request;
mod settings;
mod state;

pub use pull_request::{AnalysisPullRequest, NewAnalysisPullRequest, PullRequestState};
pub use settings::{AnalysisModel, AnalyzerSettings, ModelLimits, ModelProvider};
pub use state::{Analysis, AnalysisOutput, AnalysisState, NewAnalysis, SuggestedFix, TokenUsage};

/// State transitions of fix pull requests.
pub mod pull {
    pub use super::pull_request::{
        PullRequestEnd, mark_ended, mark_failed, mark_opened, next_branch, request,
    };
}
