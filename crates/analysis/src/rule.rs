//! A rule: what a line looks like, and what it means.

use berth_core::deployment::Cause;
use regex::Regex;
use serde::Serialize;

use crate::category::Category;
use crate::finding::Confidence;

/// Of a word taken from the log, so many characters are said again.
pub const WORD_CHARS_MAX: usize = 120;
/// Lines that are shown after the one that matched.
pub const AFTER_MAX: usize = 4;

/// Data: everything that is known about one kind of failure.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// Never changes: it is part of fingerprints.
    pub id: &'static str,
    pub category: Category,
    pub weight: Weight,
    pub confidence: Confidence,
    /// A line that matches one of these. Named groups are words to say again.
    pub patterns: &'static [&'static str],
    /// Somewhere in the log a line matches one of these, too. Empty: not asked for.
    pub with: &'static [&'static str],
    /// The step ended with one of these exit codes, as a shell counts them. Empty: not asked for.
    pub exits: &'static [i32],
    /// The engine gave this cause.
    pub cause: Option<Cause>,
    /// Lines after the one that matched that belong to it.
    pub after: usize,
    /// The root cause in plain words, `{name}` for a named group.
    pub says: &'static str,
    pub advice: &'static str,
}

/// How telling a match is, the least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Weight {
    /// Only the exit code speaks.
    Exit,
    /// A tool tells that something it called went wrong.
    Report,
    /// Words that mean the same whoever prints them.
    General,
    /// The words of one tool for one cause.
    Cause,
    /// The engine knows it.
    Engine,
}

impl Weight {
    pub const fn as_str(self) -> &'static str {
        match self {
            Weight::Exit => "exit",
            Weight::Report => "report",
            Weight::General => "general",
            Weight::Cause => "cause",
            Weight::Engine => "engine",
        }
    }
}

const BLANK: Rule = Rule {
    id: "",
    category: Category::Crash,
    weight: Weight::Exit,
    confidence: Confidence::Low,
    patterns: &[],
    with: &[],
    exits: &[],
    cause: None,
    after: 0,
    says: "",
    advice: "",
};

/// What the rules of a weight have in common.
pub(crate) const CAUSE: Rule = Rule { weight: Weight::Cause, confidence: Confidence::High, ..BLANK };
pub(crate) const GENERAL: Rule = Rule { weight: Weight::General, confidence: Confidence::Medium, ..BLANK };
pub(crate) const REPORT: Rule = Rule { weight: Weight::Report, confidence: Confidence::Low, ..BLANK };
pub(crate) const EXIT: Rule = Rule { weight: Weight::Exit, confidence: Confidence::Low, ..BLANK };
pub(crate) const ENGINE: Rule = Rule { weight: Weight::Engine, confidence: Confidence::High, ..BLANK };

/// Fills words of the line into a sentence. What is filled in is never read as a place to fill.
pub(crate) fn fill(says: &str, pattern: Option<&Regex>, line: &str) -> String {
    let found = pattern.and_then(|pattern| pattern.captures(line));
    let mut out = String::new();
    let mut rest = says;
    while let Some((before, tail)) = rest.split_once('{') {
        let Some((name, tail)) = tail.split_once('}') else { break };
        out.push_str(before);
        let word = found.as_ref().and_then(|found| found.name(name)).map_or("", |word| word.as_str());
        // Most words of tools are sentences already.
        let word = if tail.starts_with('.') { word.trim_end_matches(['.', ' ']) } else { word };
        out.push_str(&word_of(word));
        rest = tail;
    }
    out.push_str(rest);
    out
}

fn word_of(text: &str) -> String {
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
    fn words_are_filled_in_once_and_cut() {
        let pattern = Regex::new("^no (?P<a>.+) in (?P<b>.+)$").unwrap();
        let says = |line: &str| fill("There is no \"{a}\" in {b}.", Some(&pattern), line);
        assert_eq!(says("no milk in shop"), "There is no \"milk\" in shop.");
        assert_eq!(says("no {b} in {a}"), "There is no \"{b}\" in {a}.");
        assert_eq!(says("no milk in shop."), "There is no \"milk\" in shop.");
        assert_eq!(says("nothing"), "There is no \"\" in .");
        let long = says(&format!("no {} in x", "ö".repeat(WORD_CHARS_MAX + 1)));
        assert_eq!(long.chars().filter(|c| *c == 'ö').count(), WORD_CHARS_MAX);
    }
}
