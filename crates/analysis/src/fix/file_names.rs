//! Finds file names in a log.

use crate::clean::clean;
use crate::diff::CommitTree;
use crate::finding::LineRange;
use crate::input::AnalysisInput;

use super::regular_file;

/// Maximum number of lines that are scanned for file names.
const LINES_MAX: usize = 20;
/// Maximum number of words that are looked up in the commit.
const WORDS_MAX: usize = 40;
/// Maximum number of leading directories that are stripped from an absolute path.
const DEPTH_MAX: usize = 12;

/// Returns the files that these lines name, followed by the files that the step's script names. Files are looked up
/// lazily.
pub(super) fn named_files(
    input: &AnalysisInput<'_>,
    ranges: &[LineRange],
    files: &dyn CommitTree,
) -> impl Iterator<Item = String> {
    let shown = ranges.iter().flat_map(|range| range.first..=range.last).take(LINES_MAX);
    let lines = shown.filter_map(|number| input.lines.get(number.checked_sub(input.first_line.max(1))?));
    let mut words: Vec<String> = Vec::new();
    let said = lines.flat_map(|line| possible_names(&clean(line)));
    let run = input.run.unwrap_or_default();
    for word in said.chain(shell_words(run)).chain(plain_words(run)) {
        if word.chars().any(char::is_alphanumeric) && !words.contains(&word) {
            words.push(word);
        }
    }
    let mut found = Vec::new();
    words.into_iter().take(WORDS_MAX).filter_map(move |word| {
        let path = find_in_commit(&word, files).filter(|path| !found.contains(path))?;
        found.push(path.clone());
        Some(path)
    })
}

/// Returns the parts of a message that may be file names. File names can contain spaces and shell characters, so longer
/// parts come first: text in quotes, and text between colons (`sh: 2: ./my script.sh: Permission denied`).
fn possible_names(line: &str) -> Vec<String> {
    let parts = line.split(": ").map(|part| part.trim().to_owned());
    let parts = parts.filter(|part| part.contains(['/', '.']));
    let curly = line.split('‘').skip(1).filter_map(|rest| Some(rest.split_once('’')?.0.to_owned()));
    parts.chain(curly).chain(shell_words(line)).chain(plain_words(line)).take(WORDS_MAX).collect()
}

/// Splits text into words as a shell does. Handles quotes and backslashes, but expands nothing.
fn shell_words(text: &str) -> Vec<String> {
    let (mut words, mut word, mut chars) = (Vec::new(), String::new(), text.chars());
    let mut quote = None;
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None | Some('"'), '\\') => word.extend(chars.next()),
            (None, c) if c.is_whitespace() || ";&|()<>".contains(c) => words.push(std::mem::take(&mut word)),
            (_, c) => word.push(c),
        }
        if words.len() == WORDS_MAX {
            break;
        }
    }
    words.push(word);
    words
}

fn plain_words(text: &str) -> Vec<String> {
    let between = |c: char| c.is_whitespace() || "'\"`‘’:;,()[]<>|&=$".contains(c);
    let words = text.split(between).filter(|word| word.chars().any(char::is_alphanumeric));
    words.take(WORDS_MAX).map(str::to_owned).collect()
}

/// Finds the file of the commit that a word refers to. Absolute paths point into the runner's workspace, so leading
/// directories are stripped until the rest is a file of the commit.
fn find_in_commit(word: &str, files: &dyn CommitTree) -> Option<String> {
    let mut path = word.trim_start_matches("./");
    if !path.starts_with('/') {
        return regular_file(files, path).map(|_| path.to_owned());
    }
    for _ in 0..DEPTH_MAX {
        path = path.trim_start_matches('/').split_once('/')?.1;
        if regular_file(files, path).is_some() {
            return Some(path.to_owned());
        }
    }
    None
}
