//! Helpers for messages: suggestions, lists, quotes.

use crate::pipeline::limits::{CHOICES_LISTED_MAX, QUOTED_CHARS_MAX, SUGGESTED_CHARS_MAX};

/// Returns a hint and the suggested word: `; did you mean …?`, or `; there are …` if no word is similar but the choices
/// are few.
pub fn hint<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> (String, Option<String>) {
    let known: Vec<&str> = known.into_iter().collect();
    match nearest(word, &known) {
        Some(near) => (format!("; did you mean `{near}`?"), Some(near.to_owned())),
        None if (1..=CHOICES_LISTED_MAX).contains(&known.len()) => {
            let verb = if known.len() == 1 { "is" } else { "are" };
            (format!("; there {verb} {}", join_words(known, "and")), None)
        }
        None => (String::new(), None),
    }
}

/// The word that was probably meant: its edit distance is small, or one word is a prefix or suffix of the other, as
/// with `tuesday` and `tue`, `smoke` and `smoke-test`, or `url` and `repositoryUrl`.
pub fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    const AFFIX_CHARS_MIN: usize = 3;
    let length = word.chars().count();
    if length > SUGGESTED_CHARS_MAX {
        return None;
    }
    let lower = word.to_ascii_lowercase();
    let allowed = (length / 3).max(1);
    let distance = |candidate: &str| {
        let candidate = candidate.to_ascii_lowercase();
        let shorter = candidate.len().min(lower.len());
        let is_affix = |whole: &str, part: &str| whole.starts_with(part) || whole.ends_with(part);
        if shorter >= AFFIX_CHARS_MIN && (is_affix(&candidate, &lower) || is_affix(&lower, &candidate)) {
            return Some(allowed);
        }
        let comparable = candidate.chars().count().abs_diff(length) <= allowed;
        comparable.then(|| strsim::osa_distance(&lower, &candidate)).filter(|distance| *distance <= allowed)
    };
    let ranked = known.iter().filter_map(|candidate| Some((distance(candidate)?, *candidate)));
    ranked.min_by_key(|(distance, _)| *distance).map(|(_, candidate)| candidate)
}

/// Quotes user text in a message: on one line and truncated.
pub fn quote(text: &str) -> String {
    let one_line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("`{}`", truncate(&one_line, QUOTED_CHARS_MAX))
}

/// Joins words as "a", "a and b", or "a, b and c", with `joint` before the last word.
pub fn join_words<'k>(words: impl IntoIterator<Item = &'k str>, joint: &str) -> String {
    let words: Vec<&str> = words.into_iter().collect();
    match words.as_slice() {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [most @ .., last] => format!("{} {joint} {last}", most.join(", ")),
    }
}

/// Escapes a key for a JSON pointer.
pub fn escape_pointer(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// Truncates to this number of characters and marks the cut with `…`.
pub fn truncate(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_finds_typos_and_common_prefixes() {
        for (word, known, meant) in [
            ("tmeout", vec!["name", "timeout"], Some("timeout")),
            ("Timeout", vec!["name", "timeout"], Some("timeout")),
            ("tuesday", vec!["mon", "tue"], Some("tue")),
            ("smok", vec!["deploy", "smoke-test"], Some("smoke-test")),
            ("imgae", vec!["image", "images"], Some("image")),
            ("x", vec!["name"], None),
            ("", vec!["name"], None),
        ] {
            assert_eq!(nearest(word, &known), meant, "{word}");
        }
        assert_eq!(nearest(&"x".repeat(65), &[&"x".repeat(64)]), None);
    }

    #[test]
    fn quote_truncates_and_joins_lines() {
        assert_eq!(quote("a\nb"), "`a b`");
        assert_eq!(quote(&"ü".repeat(99)).chars().count(), QUOTED_CHARS_MAX + 3);
    }
}
