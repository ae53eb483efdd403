//! What an analysis says.

use serde::{Deserialize, Serialize};

use crate::category::Category;
use crate::fix::Fix;

/// What the log tells about a failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum Analysis {
    Found(Finding),
    NotEnoughEvidence(Unexplained),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// One or two sentences in plain words. Words taken from the log are cut.
    pub root_cause: String,
    pub category: Category,
    pub confidence: Confidence,
    /// Lines that show it, the most telling first. They exist in the log.
    pub evidence: Vec<LineRange>,
    /// What to do.
    pub advice: String,
    /// The rule that says so; none where another analyser does.
    pub rule: Option<String>,
    /// Lines of a kind that the last good run did not print.
    pub new_lines: Vec<LineRange>,
    pub suggested_fix: Option<Fix>,
}

/// No rule knows it. What might help a person is still shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Unexplained {
    /// Lines that speak of an error, and the last one of the log.
    pub worth_a_look: Vec<LineRange>,
    pub new_lines: Vec<LineRange>,
}

/// How sure a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    Low,
    Medium,
    High,
}

impl Confidence {
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

/// Lines of a log, counted from 1, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LineRange {
    pub first: usize,
    pub last: usize,
}

impl LineRange {
    pub const fn one(line: usize) -> Self {
        Self { first: line, last: line }
    }

    /// Whether a log whose lines are `first..=last` has all of them.
    pub const fn is_within(self, first: usize, last: usize) -> bool {
        first <= self.first && self.first <= self.last && self.last <= last
    }
}
