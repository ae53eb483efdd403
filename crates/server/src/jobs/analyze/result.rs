//! The stored result of an analysis. Evidence includes the text of the log lines, so that it can be read without the
//! log.

use berth_analysis::{AnalysisResult, LineRange, clean, template};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Maximum number of characters per piece of evidence.
const EVIDENCE_CHARS_MAX: usize = 4_000;

/// The findings of an analysis. If there is no root cause, the evidence was insufficient.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct StoredFindings {
    pub(crate) root_cause: Option<String>,
    pub(crate) category: Option<String>,
    pub(crate) confidence: Option<String>,
    pub(crate) evidence: Vec<LogEvidence>,
    pub(crate) advice: Option<String>,
    pub(crate) rule: Option<String>,
    pub(crate) new_lines: Vec<EvidenceLines>,
}

/// A range of line numbers, inclusive. The first line of a log is number 1.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EvidenceLines {
    pub(crate) first_line: usize,
    pub(crate) last_line: usize,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LogEvidence {
    #[serde(flatten)]
    pub(crate) lines: EvidenceLines,
    pub(crate) text: String,
    /// Whether the log contains these lines. Always true for evidence from rules; a model may cite lines that do not
    /// exist.
    #[serde(default = "yes")]
    pub(crate) supported: bool,
}

const fn yes() -> bool {
    true
}

impl StoredFindings {
    /// Parses a stored result. A result that cannot be parsed is treated as empty.
    pub(crate) fn read(kept: &Value) -> Self {
        Self::deserialize(kept).unwrap_or_default()
    }

    /// Converts the findings to the form that is stored.
    pub(super) fn to_value(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// Adapts an earlier result for the same failure to this log: replaces each piece of evidence with the matching
    /// line in this log, or removes it if there is none.
    pub(super) fn relocate(mut self, lines: &[String], first_line: usize) -> Self {
        let kinds: Vec<String> = lines.iter().map(|line| template(&clean(line))).collect();
        let found = |evidence: &LogEvidence| {
            let kind = template(evidence.text.lines().next()?);
            let at = kinds.iter().rposition(|other| *other == kind)?;
            Some(quote_evidence(LineRange::one(at + first_line), lines, first_line))
        };
        self.evidence = self.evidence.iter().filter_map(found).collect();
        self
    }

    /// Converts the result of the rules. `first_line` is the line number of the first of `lines`.
    pub(super) fn from_rules(analysis: &AnalysisResult, lines: &[String], first_line: usize) -> Self {
        let shown = |ranges: &[LineRange]| {
            ranges.iter().map(|range| quote_evidence(*range, lines, first_line)).collect::<Vec<_>>()
        };
        let places = |ranges: &[LineRange]| ranges.iter().copied().map(EvidenceLines::from).collect();
        match analysis {
            AnalysisResult::Found(found) => Self {
                root_cause: Some(found.root_cause.clone()),
                category: Some(found.category.as_str().to_owned()),
                confidence: Some(found.confidence.as_str().to_owned()),
                evidence: shown(&found.evidence),
                advice: Some(found.advice.clone()),
                rule: found.rule.clone(),
                new_lines: places(&found.new_lines),
            },
            AnalysisResult::NotEnoughEvidence(unexplained) => Self {
                evidence: shown(&unexplained.worth_a_look),
                new_lines: places(&unexplained.new_lines),
                ..Self::default()
            },
        }
    }
}

impl From<LineRange> for EvidenceLines {
    fn from(range: LineRange) -> Self {
        Self { first_line: range.first, last_line: range.last }
    }
}

fn quote_evidence(range: LineRange, lines: &[String], first_line: usize) -> LogEvidence {
    let from = range.first.saturating_sub(first_line).min(lines.len());
    let to = (range.last + 1).saturating_sub(first_line).clamp(from, lines.len());
    let text: Vec<String> = lines[from..to].iter().map(|line| clean(line)).collect();
    let text = text.join("\n").chars().take(EVIDENCE_CHARS_MAX).collect();
    LogEvidence { lines: range.into(), text, supported: true }
}

/// Quotes the log lines that a model cites as evidence. The text is empty if the lines do not exist.
pub(super) fn model_evidence(
    range: LineRange,
    exists: bool,
    lines: &[String],
    first_line: usize,
) -> LogEvidence {
    if exists {
        return quote_evidence(range, lines, first_line);
    }
    LogEvidence { lines: range.into(), text: String::new(), supported: false }
}
