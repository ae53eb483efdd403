//! Fingerprints. Two failures with the same fingerprint are treated as the same failure.

use std::fmt::{self, Write as _};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::clean::clean;
use crate::finding::{AnalysisResult, LineRange};
use crate::input::AnalysisInput;
use crate::template::template;

/// Must be increased when the hashed parts change, so that old fingerprints no longer match.
const VERSION: &str = "1";
const BYTES: usize = 16;

/// Hash of the step type, the category, the rule, the recorded cause, and the template of the first evidence line. The
/// template ignores numbers, times, ids and directories. If no rule matched, the exit code is hashed too.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint(String);

impl Fingerprint {
    /// The fingerprint in hexadecimal.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Computes the fingerprint of a failure.
pub fn fingerprint(input: &AnalysisInput<'_>, analysis: &AnalysisResult) -> Fingerprint {
    let (category, rule, line) = match analysis {
        AnalysisResult::Found(found) => {
            (found.category.as_str(), found.rule.as_deref().unwrap_or_default(), found.evidence.first())
        }
        AnalysisResult::NotEnoughEvidence(unexplained) => ("", "", unexplained.worth_a_look.last()),
    };
    // If no rule matched, the exit code is needed to tell failures apart.
    let code = if rule.is_empty() { input.ending.shell_code() } else { None };
    let code = code.map(|code| code.to_string()).unwrap_or_default();
    let cause = input.ending.cause.as_str();
    let template = line.map(|line| template_at(input, *line)).unwrap_or_default();
    let mut hash = Sha256::new();
    for part in [VERSION, input.step_type, category, rule, cause, &code, &template] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let mut text = String::with_capacity(2 * BYTES);
    for byte in hash.finalize().iter().take(BYTES) {
        let _ = write!(text, "{byte:02x}");
    }
    Fingerprint(text)
}

fn template_at(input: &AnalysisInput<'_>, range: LineRange) -> String {
    let index = range.first.checked_sub(input.first_line.max(1));
    let line = index.and_then(|index| input.lines.get(index));
    line.map(|line| template(&clean(line))).unwrap_or_default()
}
