//! Rules for a single source file.

const LINES_MAX: usize = 400;
const TEST_LINES_MAX: usize = 500;

/// Markers of unfinished work. They are split, so that this file does not contain them itself.
const UNFINISHED: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

/// Forbidden text, and what to use instead.
const BANNED: &[(&str, &str)] = &[
    (concat!("to", "do!("), "write the code, or leave the feature out"),
    (concat!("unimple", "mented!("), "write the code, or return an error"),
    (concat!("#[ig", "nore"), "make the test run, or delete it"),
    (concat!("#[al", "low("), "use #[expect(lint, reason = \"…\")]"),
    (concat!("#![al", "low("), "use #![expect(lint, reason = \"…\")]"),
];

pub(super) fn check(name: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let max = if is_test(name) { TEST_LINES_MAX } else { LINES_MAX };
    let lines = text.lines().count();
    if lines > max {
        found.push(format!("{name}: {lines} lines, at most {max}: split it by what its parts do"));
    }
    if !text.starts_with("//!") {
        found.push(format!("{name}: begin with a //! line that says what the file is for"));
    }
    if ["utils.rs", "utils/mod.rs"].iter().any(|end| name.ends_with(&format!("/{end}"))) {
        found.push(format!("{name}: name the module after what it does, not \"utils\""));
    }
    for (number, line) in (1..).zip(text.lines()) {
        let declared = line.trim_start().trim_start_matches("pub").trim_start_matches("(crate)").trim_start();
        if declared.starts_with("mod utils") {
            found.push(format!("{name}:{number}: name the module after what it does, not \"utils\""));
        }
        for word in UNFINISHED.iter().filter(|word| has_word(line, word)) {
            found.push(format!("{name}:{number}: {word}: finish it, or write it down in the tracker"));
        }
        for (banned, instead) in BANNED.iter().filter(|(banned, _)| line.contains(banned)) {
            found.push(format!("{name}:{number}: {banned}: {instead}"));
        }
    }
    found
}

/// Checks one file of the dashboard.
pub(super) fn check_web(name: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let lines = text.lines().count();
    if lines > LINES_MAX {
        found.push(format!("{name}: {lines} lines, at most {LINES_MAX}: split it by what its parts do"));
    }
    for (number, line) in (1..).zip(text.lines()) {
        for word in UNFINISHED.iter().filter(|word| has_word(line, word)) {
            found.push(format!("{name}:{number}: {word}: finish it, or write it down in the tracker"));
        }
    }
    found
}

fn is_test(name: &str) -> bool {
    name.contains("/tests/")
}

fn has_word(line: &str, word: &str) -> bool {
    let inner = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word)
        .any(|(start, _)| !line[..start].ends_with(inner) && !line[start + word.len()..].starts_with(inner))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_one(name: &str, text: &str, part: &str) {
        let found = check(name, text);
        assert!(found.len() == 1 && found[0].contains(part), "wanted one line with {part:?}, got {found:?}");
    }

    #[test]
    fn valid_file_has_no_violations() {
        let good = format!("//! Fine.\n{}", "// Todos are a word of Spanish.\n".repeat(LINES_MAX - 1));
        assert_eq!(check("crates/core/src/a.rs", &good), Vec::<String>::new());
    }

    #[test]
    fn dashboard_file_rules_are_checked() {
        assert!(check_web("web/src/a.tsx", &"x\n".repeat(LINES_MAX)).is_empty());
        assert_eq!(check_web("web/src/a.tsx", &"x\n".repeat(LINES_MAX + 1)).len(), 1);
        assert_eq!(check_web("web/src/a.tsx", &format!("// {}", UNFINISHED[0])).len(), 1);
    }

    #[test]
    fn every_source_rule_reports_its_violation() {
        let long = |lines: usize| format!("//! Long.\n{}", "\n".repeat(lines));
        check_one("crates/core/src/a.rs", &long(LINES_MAX), "at most 400");
        check_one("crates/core/tests/it/a.rs", &long(TEST_LINES_MAX), "at most 500");
        assert!(check("crates/core/tests/it/a.rs", &long(TEST_LINES_MAX - 1)).is_empty());
        check_one("xtask/src/a.rs", "fn main() {}\n", "begin with a //! line");
        check_one("xtask/src/utils.rs", "//! Things.\n", "after what it does");
        check_one("xtask/src/main.rs", "//! Things.\npub(crate) mod utils;\n", "main.rs:2");
        for (banned, instead) in BANNED {
            check_one("xtask/src/a.rs", &format!("//! Things.\n{banned}x)]\n"), instead);
        }
        for word in UNFINISHED {
            check_one("xtask/src/a.rs", &format!("//! Things.\n// {word}: later\n"), "finish it");
        }
    }
}
