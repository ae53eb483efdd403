//! Which files of the commit a log speaks of.

use crate::clean::clean;
use crate::diff::Files;
use crate::finding::Finding;
use crate::input::Input;

use super::file;

/// Words that are looked up.
const WORDS_MAX: usize = 40;
/// Directories that are taken off an absolute path, one after the other.
const DEPTH_MAX: usize = 12;

/// Paths of files that the evidence names, then those that the step's script names.
pub(super) fn files_named(input: &Input<'_>, finding: &Finding, files: &dyn Files) -> Vec<String> {
    let shown = finding.evidence.iter().take(1).flat_map(|range| range.first..=range.last);
    let lines = shown.filter_map(|number| input.lines.get(number.checked_sub(input.first_line.max(1))?));
    let mut words: Vec<String> = lines.flat_map(|line| words_of(&clean(line))).collect();
    words.extend(input.run.map(words_of).unwrap_or_default());
    let mut found = Vec::new();
    for word in words.iter().take(WORDS_MAX) {
        if let Some(path) = in_commit(word, files)
            && !found.contains(&path)
        {
            found.push(path);
        }
    }
    found
}

fn words_of(text: &str) -> Vec<String> {
    let between = |c: char| c.is_whitespace() || "'\"`‘’:;,()[]<>|&=$".contains(c);
    let words = text.split(between).filter(|word| word.chars().any(char::is_alphanumeric));
    words.take(WORDS_MAX).map(str::to_owned).collect()
}

/// A workspace lies somewhere else than the repository: an absolute path is tried without its first directories.
fn in_commit(word: &str, files: &dyn Files) -> Option<String> {
    let mut path = word.trim_start_matches("./");
    if !path.starts_with('/') {
        return file(files, path).map(|_| path.to_owned());
    }
    for _ in 0..DEPTH_MAX {
        path = path.trim_start_matches('/').split_once('/')?.1;
        if file(files, path).is_some() {
            return Some(path.to_owned());
        }
    }
    None
}
