//! Chooses the rule that explains a log best.
//!
//! 1. Causes that the engine recorded are certain.
//! 2. A line that the last successful run printed too is not evidence.
//! 3. Matches are ranked by [`crate::rule::RuleWeight`]: a tool's own message about one cause, then a generic message,
//!    then a tool's report that a program it called has failed, then the exit code.
//! 4. If several rules have the same weight, the match nearest to the end of the log wins, because a step stops at the
//!    error that made it fail. On the same line, the rule that comes first in the table wins.
//! 5. The reported line is the first one of the last group of matches, because later errors of the same kind follow
//!    from the first.

use std::sync::LazyLock;

use regex::Regex;

use crate::clean::clean;
use crate::finding::{AnalysisResult, Confidence, Finding, LineRange, UnexplainedFailure};
use crate::input::{AnalysisInput, LINE_CHARS_MAX, LINES_MAX, LOG_BYTES_MAX};
use crate::new_lines::{KnownTemplates, new_lines};
use crate::pattern::{PatternSet, compile};
use crate::rule::{AFTER_MAX, Rule, fill_template};
use crate::rules;

/// If two matches of a rule are further apart than this, they belong to different groups.
const GROUP_GAP_LINES: usize = 100;
/// Maximum number of line ranges that are listed as evidence.
const EVIDENCE_MAX: usize = 3;
const WORTH_A_LOOK_MAX: usize = 5;

/// The compiled patterns of all rules.
struct PatternTable {
    patterns: PatternSet,
    /// For each pattern, the index of its rule, and whether it comes from the rule's `with` list.
    owner: Vec<(usize, bool)>,
    error_words: Regex,
}

static TABLE: LazyLock<PatternTable> = LazyLock::new(|| {
    let (mut texts, mut owner) = (Vec::new(), Vec::new());
    for (index, rule) in rules::all().enumerate() {
        for (list, is_with) in [(rule.patterns, false), (rule.with, true)] {
            texts.extend(list.iter().copied());
            owner.extend(list.iter().map(|_| (index, is_with)));
        }
    }
    let error_words = r"(?i)\b(?:error|fatal|failed|failure|exception|panic|cannot|could not)\b";
    PatternTable {
        patterns: PatternSet::new(texts).expect("a test has compiled the patterns of all rules"),
        owner,
        error_words: compile(error_words).expect("a test has compiled it"),
    }
});

/// The matches of one rule, as pairs of line index and pattern index, sorted by line.
#[derive(Default, Clone)]
struct RuleMatches {
    hits: Vec<(usize, usize)>,
    has_with: bool,
}

/// Determines why a step failed, as far as its log and its exit code show.
pub fn analyse(input: &AnalysisInput<'_>) -> AnalysisResult {
    let skipped = skipped_lines(input.lines);
    let lines: Vec<String> = input.lines[skipped..].iter().map(|line| clean(line)).collect();
    let first_line = input.first_line.max(1) + skipped;
    let known = input.last_good.map(KnownTemplates::from_lines);
    let news = known.as_ref().map(|known| new_lines(known, &lines, first_line)).unwrap_or_default();

    let matches = match_lines(&lines, known.as_ref());
    let candidates: Vec<(&Rule, usize, &RuleMatches)> = rules::all()
        .zip(&matches)
        .filter_map(|(rule, matches)| {
            Some((rule, match_position(rule, matches, input, lines.len())?, matches))
        })
        .collect();
    // Finds the greatest weight and line. `min_by_key` with a reversed key is used because it returns the first of
    // several equal rules.
    let best = candidates.iter().min_by_key(|(rule, at, _)| std::cmp::Reverse((rule.weight, *at)));
    let Some((rule, _, matches)) = best else {
        let worth_a_look = worth_a_look(&lines, first_line);
        return AnalysisResult::NotEnoughEvidence(UnexplainedFailure { worth_a_look, new_lines: news });
    };
    let is_contested =
        candidates.iter().any(|(other, _, _)| other.weight == rule.weight && other.category != rule.category);
    let confidence = if is_contested { rule.confidence.lower() } else { rule.confidence };
    AnalysisResult::Found(build_finding(rule, matches, confidence, &lines, first_line, news))
}

/// Number of lines at the start that are skipped because the log exceeds the limits.
fn skipped_lines(lines: &[String]) -> usize {
    let mut bytes = 0;
    let fits = |line: &&String| {
        bytes += line.len().min(LINE_CHARS_MAX);
        bytes <= LOG_BYTES_MAX
    };
    lines.len() - lines.iter().rev().take(LINES_MAX).take_while(fits).count()
}

fn match_lines(lines: &[String], known: Option<&KnownTemplates>) -> Vec<RuleMatches> {
    let mut found = vec![RuleMatches::default(); rules::all().count()];
    for (at, line) in lines.iter().enumerate() {
        let hits = TABLE.patterns.matches(line);
        let is_old = !hits.is_empty() && known.is_some_and(|known| known.contains(line));
        for hit in hits {
            let (rule, is_with) = TABLE.owner[hit];
            let matches = &mut found[rule];
            // A `with` pattern only identifies the tool and is not evidence, so it may also match a line that a
            // successful run printed.
            matches.has_with |= is_with;
            if !is_with && !is_old && matches.hits.last().is_none_or(|(last, _)| *last != at) {
                matches.hits.push((at, hit));
            }
        }
    }
    found
}

/// Returns the line at which the rule matched last, or `None` if the rule does not apply.
fn match_position(
    rule: &Rule,
    matches: &RuleMatches,
    input: &AnalysisInput<'_>,
    lines: usize,
) -> Option<usize> {
    let ending = &input.ending;
    let is_cause = rule.cause.is_none_or(|cause| cause == ending.cause);
    let is_exit = rule.exits.is_empty() || ending.shell_code().is_some_and(|code| rule.exits.contains(&code));
    let is_with = rule.with.is_empty() || matches.has_with;
    if !(is_cause && is_exit && is_with) {
        return None;
    }
    if rule.patterns.is_empty() { Some(lines) } else { Some(matches.hits.last()?.0) }
}

fn build_finding(
    rule: &Rule,
    matches: &RuleMatches,
    confidence: Confidence,
    lines: &[String],
    first_line: usize,
    new_lines: Vec<LineRange>,
) -> Finding {
    let mut shown: Vec<(usize, usize)> = Vec::new();
    let mut root = (None, "");
    if let Some((at, pattern)) = first_of_last_group(&matches.hits) {
        root = (TABLE.patterns.get(pattern), lines[at].as_str());
        shown.push((at, (at + rule.after.min(AFTER_MAX)).min(lines.len() - 1)));
        let later = matches.hits.iter().map(|(other, _)| *other).filter(|other| *other > shown[0].1);
        shown.extend(later.take(EVIDENCE_MAX - 1).map(|other| (other, other)).collect::<Vec<_>>());
    } else if let Some(at) = last_own_line(lines) {
        shown.push((at, at));
    }
    Finding {
        root_cause: fill_template(rule.says, root.0, root.1),
        category: rule.category,
        confidence,
        evidence: shown
            .into_iter()
            .map(|(first, last)| LineRange { first: first + first_line, last: last + first_line })
            .collect(),
        advice: fill_template(rule.advice, root.0, root.1),
        rule: Some(rule.id.to_owned()),
        new_lines,
        suggested_fix: None,
    }
}

fn first_of_last_group(hits: &[(usize, usize)]) -> Option<(usize, usize)> {
    let mut first = *hits.last()?;
    for hit in hits.iter().rev() {
        if first.0 - hit.0 > GROUP_GAP_LINES {
            break;
        }
        first = *hit;
    }
    Some(first)
}

/// The last line that the step itself printed. When the runner stops a step, it adds a line of its own.
fn last_own_line(lines: &[String]) -> Option<usize> {
    let is_own = |line: &String| !line.is_empty() && !line.starts_with("[berth] ");
    lines.iter().rposition(is_own).or_else(|| lines.iter().rposition(|line| !line.is_empty()))
}

/// Lines that may help a person: the last ones with an error word, and the last line that is not empty.
fn worth_a_look(lines: &[String], first_line: usize) -> Vec<LineRange> {
    let last = last_own_line(lines);
    let speaking = (0..lines.len()).rev().filter(|at| TABLE.error_words.is_match(&lines[*at]));
    let mut found: Vec<usize> = speaking.take(WORTH_A_LOOK_MAX).chain(last).collect();
    found.sort_unstable();
    found.dedup();
    found.into_iter().map(|at| LineRange::one(at + first_line)).collect()
}
