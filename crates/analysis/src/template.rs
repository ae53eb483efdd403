//! Line templates: lines with placeholders for everything that differs from run to run (numbers, times, ids, addresses,
//! directories).

use std::sync::LazyLock;

use regex::{Captures, Regex};

use crate::pattern::compile;

/// A hexadecimal word without digits counts as an id only if it has at least this many letters.
const ID_LETTERS_MIN: usize = 12;

/// Patterns for words that differ from run to run, with the names of their placeholders. Longer forms come first.
const VARYING: &[(&str, &str)] = &[
    ("uuid", r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"),
    (
        "time",
        r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]+)?)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?)?|[0-9]{1,2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]+)?",
    ),
    // Replaces the directory but keeps the file name, because workspaces have different paths but the same content.
    ("path", r"(?P<lead>^|[\s'\x22`(=:,\[<])(?:~|[A-Za-z]:)?[/\\](?:[\w.@+~-]+[/\\])+"),
    ("tmp", r"\btmp[._-]?[A-Za-z0-9_]{6,}\b"),
    // Commit ids and similar. Some of them consist of digits only, so numbers get the same placeholder.
    ("n", r"\b0x[0-9a-fA-F]+\b|\b[0-9a-f]{6,}\b(?:[.,:]\d+)*|\d+(?:[.,:]\d+)*"),
];

static PATTERN: LazyLock<Regex> = LazyLock::new(|| {
    let parts: Vec<String> = VARYING.iter().map(|(name, part)| format!("(?P<{name}>{part})")).collect();
    compile(&parts.join("|")).expect("a test has compiled it")
});

/// Returns the template of a cleaned line.
pub fn template(line: &str) -> String {
    let replaced = PATTERN.replace_all(line, |found: &Captures<'_>| {
        // A short word of the letters a to f is an ordinary word, not an id.
        if found[0].len() < ID_LETTERS_MIN && found[0].bytes().all(|b| b.is_ascii_alphabetic()) {
            return found[0].to_owned();
        }
        let kind = VARYING.iter().find(|(name, _)| found.name(name).is_some());
        let lead = found.name("lead").map_or("", |lead| lead.as_str());
        format!("{lead}<{}>", kind.map_or("n", |(name, _)| name))
    });
    replaced.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn template_replaces_varying_words() {
        for (line, expected) in [
            ("Compiled 12 files in 3.4s", "Compiled <n> files in <n>s"),
            ("2026-11-15T13:50:48.123Z ready", "<time> ready"),
            ("at 13:50:48 it   stopped", "at <time> it stopped"),
            ("id 7d444840-9dc0-11d1-b245-5ffdce74fad2.", "id <uuid>."),
            ("HEAD is now at 9fceb02a", "HEAD is now at <n>"),
            ("/work/ws/8f3a/src/main.c:12:5: error: bad", "<path>main.c:<n>: error: bad"),
            ("open '/tmp/tmp.aB3dEfGh/data'", "open '<path>data'"),
            ("see src/main.c", "see src/main.c"),
            ("error[E0308]: mismatched types", "error[E<n>]: mismatched types"),
            ("added and faced, a facade", "added and faced, a facade"),
            ("main.c:100000:100000: bad", "main.c:<n>: bad"),
            ("ids e1234f and deadbeefdeadbeef", "ids <n> and <n>"),
        ] {
            assert_eq!(template(line), expected, "{line}");
        }
    }
}
