//! The results of an analysis.

use serde::{Deserialize, Serialize};

use crate::category::Category;
use crate::fix::FixSuggestion;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum AnalysisResult {
    Found(Finding),
    NotEnoughEvidence(UnexplainedFailure),
}

/// A root cause with its evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// One or two sentences. Quoted log text is truncated.
    pub root_cause: String,
    pub category: Category,
    pub confidence: Confidence,
    /// Line ranges of the log, most significant first.
    pub evidence: Vec<LineRange>,
    /// What the user can do about the failure.
    pub advice: String,
    /// The rule that matched. `None` if another analyzer produced the finding.
    pub rule: Option<String>,
    /// Lines that the last successful run did not print.
    pub new_lines: Vec<LineRange>,
    pub suggested_fix: Option<FixSuggestion>,
}

/// A failure that no rule explains, with lines that may help a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnexplainedFailure {
    /// Lines that contain an error word, and the last line of the log.
    pub worth_a_look: Vec<LineRange>,
    pub new_lines: Vec<LineRange>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    Low,
    Medium,
    High,
}

impl Confidence {
    /// The confidence level's name in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Confidence::Low => "low",
            Confidence::Medium => "medium",
            Confidence::High => "high",
        }
    }

    pub(crate) const fn lower(self) -> Self {
        match self {
            Confidence::High => Confidence::Medium,
            Confidence::Medium | Confidence::Low => Confidence::Low,
        }
    }
}

/// A range of lines. Lines start at 1, and both ends are included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LineRange {
    pub first: usize,
    pub last: usize,
}

impl LineRange {
    /// A range of one line.
    pub const fn one(line: usize) -> Self {
        Self { first: line, last: line }
    }

    /// Whether the range lies within a log that has the lines `first..=last`.
    pub const fn is_within(self, first: usize, last: usize) -> bool {
        first <= self.first && self.first <= self.last && self.last <= last
    }
}
