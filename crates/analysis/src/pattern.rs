//! Matches a line against the patterns of all rules.
//!
//! An Aho-Corasick automaton first finds literals in the line. Only patterns that have one of these literals are tried.
//! The literals are derived from the patterns.

use std::collections::BTreeMap;

use aho_corasick::AhoCorasick;
use regex::Regex;
use regex_syntax::hir::{Class, Hir, HirKind};

/// Minimum length of a literal. Shorter ones occur in almost every line.
const WORD_BYTES_MIN: usize = 3;
/// A pattern with more alternative literals than this is tried on every line.
const WORDS_MAX: usize = 64;

/// Compiles a pattern with ASCII character classes. They are faster than Unicode classes and sufficient for the output
/// of tools.
pub(crate) fn compile(text: &str) -> Result<Regex, regex::Error> {
    Regex::new(&ascii_pattern(text))
}

fn ascii_pattern(text: &str) -> String {
    text.replace(r"\d", "[0-9]")
        .replace(r"\w", "[0-9A-Za-z_]")
        .replace(r"\s", r"[ \t]")
        .replace(r"\S", r"[^ \t]")
        .replace(r"\b", r"(?-u:\b)")
}

/// A set of patterns, which are identified by their index.
pub(crate) struct PatternSet {
    each: Vec<Regex>,
    words: AhoCorasick,
    /// For each literal, the indexes of the patterns that have it.
    by_word: Vec<Vec<usize>>,
    /// Patterns without a literal, which are tried on every line.
    always: Vec<usize>,
}

impl PatternSet {
    /// Compiles the patterns. Fails on the first invalid one; a test checks that the patterns of all rules are valid.
    pub(crate) fn new<'p>(texts: impl IntoIterator<Item = &'p str>) -> Result<Self, String> {
        let (mut each, mut always) = (Vec::new(), Vec::new());
        let mut by_word: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (number, text) in texts.into_iter().enumerate() {
            each.push(compile(text).map_err(|error| error.to_string())?);
            let parsed = regex_syntax::parse(&ascii_pattern(text)).map_err(|error| error.to_string())?;
            match required_literals(&parsed) {
                Some(words) => {
                    for word in words {
                        by_word.entry(word).or_default().push(number);
                    }
                }
                None => always.push(number),
            }
        }
        let words = AhoCorasick::builder().ascii_case_insensitive(true).build(by_word.keys());
        let words = words.map_err(|error| error.to_string())?;
        Ok(Self { each, words, by_word: by_word.into_values().collect(), always })
    }

    /// Returns the indexes of the matching patterns, in order.
    pub(crate) fn matches(&self, line: &str) -> Vec<usize> {
        let found = self.words.find_overlapping_iter(line);
        let mut tried: Vec<usize> = self.always.clone();
        let mut is_seen = vec![false; self.by_word.len()];
        for word in found.map(|found| found.pattern().as_usize()) {
            if !std::mem::replace(&mut is_seen[word], true) {
                tried.extend(&self.by_word[word]);
            }
        }
        tried.sort_unstable();
        tried.dedup();
        tried.retain(|number| self.each[*number].is_match(line));
        tried
    }

    pub(crate) fn get(&self, number: usize) -> Option<&Regex> {
        self.each.get(number)
    }
}

/// Returns literals in lower case. Every line that matches the pattern contains at least one of them. Prefers long
/// literals.
fn required_literals(hir: &Hir) -> Option<Vec<String>> {
    match hir.kind() {
        HirKind::Literal(_) | HirKind::Class(_) => long_enough(vec![literal_text(hir)?]),
        HirKind::Capture(capture) => required_literals(&capture.sub),
        HirKind::Repetition(repetition) if repetition.min > 0 => required_literals(&repetition.sub),
        HirKind::Concat(parts) => {
            let mut best: Option<Vec<String>> = None;
            let mut run = String::new();
            for part in parts {
                match literal_text(part) {
                    Some(more) => run.push_str(&more),
                    None => {
                        keep_longer(&mut best, long_enough(vec![std::mem::take(&mut run)]));
                        keep_longer(&mut best, required_literals(part));
                    }
                }
            }
            keep_longer(&mut best, long_enough(vec![run]));
            best
        }
        HirKind::Alternation(parts) => {
            let all: Option<Vec<Vec<String>>> = parts.iter().map(required_literals).collect();
            let all: Vec<String> = all?.into_iter().flatten().collect();
            (all.len() <= WORDS_MAX).then_some(all)
        }
        HirKind::Empty | HirKind::Look(_) | HirKind::Repetition(_) => None,
    }
}

fn long_enough(words: Vec<String>) -> Option<Vec<String>> {
    words.iter().all(|word| word.len() >= WORD_BYTES_MIN).then_some(words)
}

/// Replaces `best` with `other` if the shortest literal in `other` is longer.
fn keep_longer(best: &mut Option<Vec<String>>, other: Option<Vec<String>>) {
    let shortest = |words: &Vec<String>| words.iter().map(String::len).min().unwrap_or_default();
    if other.as_ref().map(shortest) > best.as_ref().map(shortest) {
        *best = other;
    }
}

/// Returns the text of a literal. A class that matches one letter in upper and lower case counts as a literal.
fn literal_text(hir: &Hir) -> Option<String> {
    match hir.kind() {
        HirKind::Literal(literal) => Some(std::str::from_utf8(&literal.0).ok()?.to_ascii_lowercase()),
        HirKind::Class(Class::Unicode(class)) => {
            let mut ascii = class.ranges().iter().filter(|range| range.start().is_ascii());
            let chars: Option<Vec<char>> =
                ascii.by_ref().map(|range| (range.start() == range.end()).then_some(range.start())).collect();
            let chars = chars?;
            // In a case-insensitive pattern, `k` and `s` also match two characters outside of ASCII, which are ignored
            // because tools do not print them.
            let is_letter = chars.len() == 2 && chars[0].eq_ignore_ascii_case(&chars[1]);
            is_letter.then(|| chars[0].to_ascii_lowercase().to_string())
        }
        HirKind::Capture(capture) => literal_text(&capture.sub),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules;

    #[test]
    fn pattern_literals_are_extracted() {
        for (pattern, words) in [
            (r"^E\s+(?P<what>assert .+)", Some(vec!["assert "])),
            (r"(?i)connection refused", Some(vec!["connection refused"])),
            (r"\d+ (?:failed|broken)\b", Some(vec!["failed", "broken"])),
            (r"\S+: (?:FAILED)?", None),
            (r"a|bcd", None),
            (r"(?:abc)+x", Some(vec!["abc"])),
        ] {
            let found = required_literals(&regex_syntax::parse(&ascii_pattern(pattern)).unwrap());
            let words: Option<Vec<String>> =
                words.map(|words| words.iter().map(ToString::to_string).collect());
            assert_eq!(found, words, "{pattern}");
        }
    }

    #[test]
    fn rule_patterns_without_a_literal_are_rare() {
        const ALWAYS_MAX: usize = 4;
        let texts = rules::all().flat_map(|rule| rule.patterns.iter().chain(rule.with)).copied();
        let patterns = PatternSet::new(texts).unwrap();
        let always: Vec<_> = patterns.always.iter().map(|number| patterns.each[*number].as_str()).collect();
        assert!(always.len() <= ALWAYS_MAX, "{always:#?}");
    }
}
