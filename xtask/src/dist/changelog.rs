//! Our CHANGELOG.md in the form that Debian's tools read.

use std::fmt::Write as _;
use std::process::Command;

use crate::tool::output;

const UNRELEASED: &str = "Unreleased";
/// Of a line, as Debian's policy wants it.
const COLUMNS_MAX: usize = 80;

/// Each section with entries becomes one of Debian's. What is not released yet is what this version holds, made at
/// `made_at` (seconds); the others say their day: `## 0.1.0 (2026-01-31)`.
pub(super) fn debian(text: &str, version: &str, made_at: &str, maintainer: &str) -> Result<String, String> {
    let (mut made, mut seen) = (String::new(), Vec::new());
    for section in text.split("\n## ").skip(1) {
        let (title, body) = section.split_once('\n').unwrap_or((section, ""));
        let entries = entries(body);
        if entries.is_empty() {
            continue;
        }
        let (name, when) = match title.trim().split_once(' ') {
            None if title.trim() == UNRELEASED => (version, format!("@{made_at}")),
            None => return Err(format!("CHANGELOG.md: \"{title}\" does not say its day: (2026-01-31)")),
            Some((name, day)) => (name, day.trim_matches(['(', ')', '-', ' ']).to_owned()),
        };
        if seen.contains(&name) {
            return Err(format!(
                "CHANGELOG.md: {name} was released, and there is more in {UNRELEASED}: raise the version in Cargo.toml"
            ));
        }
        seen.push(name);
        let date = output(Command::new("date").args(["-u", "-R", "-d", &when]).env("LC_ALL", "C"));
        let date = date.ok_or_else(|| format!("CHANGELOG.md: {when:?} of \"{title}\" is no day"))?;
        let _ = write!(made, "berth ({name}) unstable; urgency=medium\n\n");
        for entry in entries {
            made += &wrapped(&entry);
        }
        let _ = write!(made, "\n -- {maintainer}  {date}\n\n");
    }
    match seen.first() {
        Some(first) if *first == version => Ok(made.trim_end().to_owned() + "\n"),
        _ => Err(format!("CHANGELOG.md: there is nothing about {version} in front")),
    }
}

/// The items of a list, each on one line and without links.
fn entries(body: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for line in body.lines() {
        match (line.strip_prefix("- "), found.last_mut()) {
            (Some(entry), _) => found.push(entry.to_owned()),
            (None, Some(last)) if !line.trim().is_empty() => *last = format!("{last} {}", line.trim()),
            (None, _) => {}
        }
    }
    found.iter().map(|entry| without_links(entry)).collect()
}

/// A link is what it is called; one that is alone in brackets is where it leads.
fn without_links(text: &str) -> String {
    let (mut made, mut rest) = (String::new(), text);
    while let Some((before, name, target, after)) = link(rest) {
        made += before;
        made += if before.ends_with('(') && after.starts_with(')') { target } else { name };
        rest = after;
    }
    made + rest
}

/// What is before the first link, its name, where it leads, and what comes after it.
fn link(text: &str) -> Option<(&str, &str, &str, &str)> {
    let (before, after) = text.split_once("](")?;
    let (before, name) = before.rsplit_once('[')?;
    let (target, after) = after.split_once(')')?;
    Some((before, name, target, after))
}

fn wrapped(entry: &str) -> String {
    let (mut made, mut line) = (String::new(), "  *".to_owned());
    for word in entry.split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > COLUMNS_MAX {
            made += &line;
            made += "\n";
            "   ".clone_into(&mut line);
        }
        line += " ";
        line += word;
    }
    made + &line + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHO: &str = "Berth <a@b.invalid>";

    fn made(text: &str) -> Result<String, String> {
        debian(text, "0.2.0", "0", WHO)
    }

    #[test]
    fn what_is_not_released_is_this_version_and_the_rest_has_its_day() {
        let long = "word ".repeat(16);
        let text = format!(
            "# Changelog\n\nAll of it.\n\n## Unreleased\n\n- {long}\n- A thing ([docs](docs/a.md)), [named](docs/b.md).\n\n\
             ## 0.1.0 (2026-01-31)\n\n- On two\n  lines.\n"
        );
        let words = ["word"; 15].join(" ");
        let wanted = format!(
            "berth (0.2.0) unstable; urgency=medium\n\n  * {words}\n    word\n  * A thing (docs/a.md), named.\n\n \
             -- {WHO}  Thu, 01 Jan 1970 00:00:00 +0000\n\n\
             berth (0.1.0) unstable; urgency=medium\n\n  * On two lines.\n\n \
             -- {WHO}  Sat, 31 Jan 2026 00:00:00 +0000\n"
        );
        assert_eq!(made(&text).unwrap(), wanted);
    }

    #[test]
    fn a_release_has_nothing_unreleased() {
        let told = made("\n## Unreleased\n\n## 0.2.0 (2026-02-01)\n\n- A thing.\n").unwrap();
        assert!(told.starts_with("berth (0.2.0) ") && told.contains("Sun, 01 Feb 2026"), "{told}");
    }

    #[test]
    fn a_version_is_told_of_once_and_in_front() {
        for (text, why) in [
            ("\n## Unreleased\n\n- More.\n\n## 0.2.0 (2026-02-01)\n\n- A thing.\n", "raise the version"),
            ("\n## Unreleased\n\n## 0.1.0 (2026-02-01)\n\n- A thing.\n", "nothing about 0.2.0"),
            ("\n## 0.2.0\n\n- A thing.\n", "does not say its day"),
            ("\n## 0.2.0 (soon, maybe)\n\n- A thing.\n", "is no day"),
        ] {
            let told = made(text).unwrap_err();
            assert!(told.contains(why), "{told}");
        }
    }
}
