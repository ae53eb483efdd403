//! Failure analyses, requested by a member or by the pipeline, and the fix pull requests made from them.
//!
//! The result of an analysis is untrusted data: it is stored and passed on, never interpreted here.

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
