//! Words that the glossary in CONTRIBUTING.md rules out, counted in comments, docs and dashboard texts.

use std::collections::BTreeMap;

/// Words that must not occur.
const BANNED: &[&str] = &[
    "anew",
    "anybody",
    "beside",
    "everybody",
    "meanwhile",
    "mend",
    "nobody",
    "nudge",
    "somebody",
    "whoever",
];

/// Maximum number of occurrences to list per word.
const SHOWN_MAX: usize = 5;

/// Collects banned words over many files.
#[derive(Default)]
pub(super) struct WordCounter {
    places: BTreeMap<&'static str, Vec<String>>,
}

impl WordCounter {
    /// Counts the words of a file. `name` is its path relative to the repository's root.
    pub(super) fn add_file(&mut self, name: &str, text: &str) {
        let Some(select) = selector(name) else { return };
        for (number, line) in (1..).zip(text.lines()) {
            for word in prose_words(select(line)) {
                if let Some(banned) = BANNED.iter().find(|banned| **banned == word) {
                    self.places.entry(banned).or_default().push(format!("{name}:{number}"));
                }
            }
        }
    }

    /// Returns one line for each word that occurs.
    pub(super) fn violations(&self) -> Vec<String> {
        let violation = |(word, places): (&&str, &Vec<String>)| {
            let shown = &places[..places.len().min(SHOWN_MAX)];
            format!(
                "\"{word}\" occurs {} times: use a term from the glossary in CONTRIBUTING.md ({} …)",
                places.len(),
                shown.join(", ")
            )
        };
        self.places.iter().map(violation).collect()
    }
}

/// Returns a function that selects the part of a line to check: comments in Rust files, everything in documentation
/// pages and the dashboard.
fn selector(name: &str) -> Option<fn(&str) -> &str> {
    let is_in = |dirs: &[&str]| dirs.iter().any(|dir| name.starts_with(dir));
    if name.ends_with(".rs") && is_in(&["crates/", "xtask/"]) {
        return Some(comment);
    }
    let is_page = name.ends_with(".md") && (name == "README.md" || is_in(&["docs/"]));
    let is_dashboard = is_in(&["web/src/"]) && (name.ends_with(".ts") || name.ends_with(".tsx"));
    (is_page || is_dashboard).then_some(|line| line)
}

/// Returns the text after `//`, unless the slashes are part of a URL.
fn comment(line: &str) -> &str {
    let start = line.match_indices("//").find(|(start, _)| !line[..*start].ends_with(':'));
    start.map_or("", |(start, _)| &line[start..])
}

/// Returns the words of a line in lower case, without text in backticks.
fn prose_words(line: &str) -> impl Iterator<Item = String> {
    let prose = line.split('`').step_by(2);
    let words = prose.flat_map(|text| text.split(|c: char| !c.is_alphanumeric() && c != '_'));
    words.filter(|word| !word.is_empty()).map(str::to_lowercase)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(name: &str, text: &str) -> usize {
        let mut counter = WordCounter::default();
        counter.add_file(name, text);
        counter.places.values().map(Vec::len).sum()
    }

    #[test]
    fn banned_words_are_counted_in_comments_and_pages() {
        let word = BANNED[0];
        assert_eq!(
            count("crates/core/src/a.rs", &format!("/// {word} of x\nlet a = \"{word}\"; // {word}\n")),
            2
        );
        assert_eq!(
            count("docs/a.md", &format!("{} may, and `{word}`, and {word}_x.\n", word.to_uppercase())),
            1
        );
        assert_eq!(count("web/src/a.tsx", &format!("<p>{word}</p>")), 1);
        assert_eq!(count("CONTRIBUTING.md", word) + count("crates/core/tests/a.txt", word), 0);
        assert_eq!(count("xtask/src/a.rs", &format!("let a = \"https://{word}\";")), 0);

        let mut counter = WordCounter::default();
        assert_eq!(counter.violations(), Vec::<String>::new());
        counter.add_file("docs/b.md", word);
        assert!(counter.violations()[0].contains("glossary"));
    }
}
