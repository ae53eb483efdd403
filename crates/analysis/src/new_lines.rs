//! Finds lines that the last successful run did not print.

use std::collections::HashSet;

use crate::clean::clean;
use crate::finding::LineRange;
use crate::input::LINES_MAX;
use crate::template::template;

/// Maximum number of ranges that [`new_lines`] returns.
const NEW_RANGES_MAX: usize = 50;

/// The line templates of a successful run.
pub(crate) struct KnownTemplates(HashSet<String>);

impl KnownTemplates {
    pub(crate) fn from_lines(lines: &[String]) -> Self {
        Self(lines.iter().take(LINES_MAX).map(|line| template(&clean(line))).collect())
    }

    pub(crate) fn contains(&self, clean_line: &str) -> bool {
        self.0.contains(&template(clean_line))
    }
}

/// Returns the ranges of new lines. Empty lines never count as new.
pub(crate) fn new_lines(known: &KnownTemplates, lines: &[String], first_line: usize) -> Vec<LineRange> {
    let mut ranges: Vec<LineRange> = Vec::new();
    for (number, line) in (first_line..).zip(lines) {
        if line.is_empty() || known.contains(line) {
            continue;
        }
        if ranges.len() > NEW_RANGES_MAX {
            break;
        }
        match ranges.last_mut() {
            Some(range) if range.last + 1 == number => range.last = number,
            _ => ranges.push(LineRange::one(number)),
        }
    }
    ranges.truncate(NEW_RANGES_MAX);
    ranges
}
