//! The definition of a rule.

use berth_core::deployment::FailureCode;
use regex::Regex;
use serde::Serialize;

use crate::category::Category;
use crate::finding::Confidence;

/// Maximum length of log text that is quoted in a sentence.
pub const WORD_CHARS_MAX: usize = 120;
/// Maximum value of [`Rule::after`].
pub const AFTER_MAX: usize = 4;

/// A rule: how to recognize one kind of failure, and what to tell the user about it.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// Must never change, because it is part of fingerprints.
    pub id: &'static str,
    pub category: Category,
    pub weight: RuleWeight,
    pub confidence: Confidence,
    /// At least one of these patterns must match a line. Their named groups can be quoted in the sentences.
    pub patterns: &'static [&'static str],
    /// If not empty, one of these patterns must also match some line of the log.
    pub with: &'static [&'static str],
    /// If not empty, the step must have ended with one of these exit codes, as a shell reports them.
    pub exits: &'static [i32],
    /// If set, the engine must have recorded this cause.
    pub cause: Option<FailureCode>,
    /// Number of lines after the match that belong to the evidence.
    pub after: usize,
    /// The sentence that states the root cause. `{name}` stands for the text of a named group.
    pub says: &'static str,
    pub advice: &'static str,
}

/// How much a match counts, in increasing order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleWeight {
    /// Only the exit code points to the cause.
    Exit,
    /// A tool reports that a program that it called has failed.
    Report,
    /// A generic message that many tools print.
    General,
    /// A tool's own message about one specific cause.
    Cause,
    /// The engine recorded the cause.
    Engine,
}

impl RuleWeight {
    /// The weight's name in the documentation.
    pub const fn as_str(self) -> &'static str {
        match self {
            RuleWeight::Exit => "exit",
            RuleWeight::Report => "report",
            RuleWeight::General => "general",
            RuleWeight::Cause => "cause",
            RuleWeight::Engine => "engine",
        }
    }
}

const BLANK: Rule = Rule {
    id: "",
    category: Category::Crash,
    weight: RuleWeight::Exit,
    confidence: Confidence::Low,
    patterns: &[],
    with: &[],
    exits: &[],
    cause: None,
    after: 0,
    says: "",
    advice: "",
};

/// Default values for the rules of each weight.
pub(crate) const CAUSE: Rule = Rule { weight: RuleWeight::Cause, confidence: Confidence::High, ..BLANK };
pub(crate) const GENERAL: Rule =
    Rule { weight: RuleWeight::General, confidence: Confidence::Medium, ..BLANK };
pub(crate) const REPORT: Rule = Rule { weight: RuleWeight::Report, confidence: Confidence::Low, ..BLANK };
pub(crate) const EXIT: Rule = Rule { weight: RuleWeight::Exit, confidence: Confidence::Low, ..BLANK };
pub(crate) const ENGINE: Rule = Rule { weight: RuleWeight::Engine, confidence: Confidence::High, ..BLANK };

/// Replaces the placeholders in a sentence with the text of named groups. Placeholders in that text are not replaced
/// again.
pub(crate) fn fill_template(says: &str, pattern: Option<&Regex>, line: &str) -> String {
    let found = pattern.and_then(|pattern| pattern.captures(line));
    let mut out = String::new();
    let mut rest = says;
    while let Some((before, tail)) = rest.split_once('{') {
        let Some((name, tail)) = tail.split_once('}') else { break };
        out.push_str(before);
        let word = found.as_ref().and_then(|found| found.name(name)).map_or("", |word| word.as_str());
        // Avoids a double full stop.
        let word = if tail.starts_with('.') { word.trim_end_matches(['.', ' ']) } else { word };
        out.push_str(&truncate_word(word));
        rest = tail;
    }
    out.push_str(rest);
    out
}

fn truncate_word(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(WORD_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn template_words_are_filled_once_and_truncated() {
        let pattern = Regex::new("^no (?P<a>.+) in (?P<b>.+)$").unwrap();
        let says = |line: &str| fill_template("There is no \"{a}\" in {b}.", Some(&pattern), line);
        assert_eq!(says("no milk in shop"), "There is no \"milk\" in shop.");
        assert_eq!(says("no {b} in {a}"), "There is no \"{b}\" in {a}.");
        assert_eq!(says("no milk in shop."), "There is no \"milk\" in shop.");
        assert_eq!(says("nothing"), "There is no \"\" in .");
        let long = says(&format!("no {} in x", "ö".repeat(WORD_CHARS_MAX + 1)));
        assert_eq!(long.chars().filter(|c| *c == 'ö').count(), WORD_CHARS_MAX);
    }
}
