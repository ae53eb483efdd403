//! Checks the form of commit subjects: `area: imperative summary`, at most 72 characters.

use std::path::Path;
use std::process::Command;

use crate::tool::output;

/// Only commits after this one are checked.
const BASE: &str = "504b1d5";
const SUBJECT_CHARS_MAX: usize = 72;

/// Returns one line for each commit with a malformed subject. Merges are not checked. Nothing is checked without git or
/// without the commit `BASE`, as in an archive or a shallow clone.
pub(super) fn check(root: &Path) -> Vec<String> {
    let git = |args: &[&str]| output(Command::new("git").arg("-C").arg(root).args(args));
    if git(&["cat-file", "-e", &format!("{BASE}^{{commit}}")]).is_none() {
        eprintln!("commit subjects not checked: commit {BASE} is not available here");
        return Vec::new();
    }
    let log = git(&["log", "--no-merges", "--format=%h %s", &format!("{BASE}..HEAD")]).unwrap_or_default();
    let commits = log.lines().filter_map(|line| line.split_once(' '));
    commits
        .filter_map(|(hash, subject)| {
            let problem = subject_problem(subject)?;
            Some(format!("commit {hash}: {problem}: \"{subject}\""))
        })
        .collect()
}

fn subject_problem(subject: &str) -> Option<&'static str> {
    let is_name = |area: &str| {
        let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_/.".contains(c);
        !area.is_empty() && area.chars().all(inner)
    };
    let is_area = |areas: &str| areas.split(", ").all(is_name);
    match subject.split_once(": ") {
        Some((area, summary)) if is_area(area) && !summary.trim().is_empty() => {}
        _ => return Some("write the subject as `area: summary`"),
    }
    if subject.chars().count() > SUBJECT_CHARS_MAX {
        return Some("shorten the subject to 72 characters");
    }
    subject.ends_with('.').then_some("end the subject without a period")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subject_with_area_and_short_summary_passes() {
        for good in [
            "store: batch idempotency-key inserts",
            "store/sqlite: fsync the WAL",
            "runner, analysis: rename tests by subject",
            &format!("a: {}", "x".repeat(69)),
        ] {
            assert_eq!(subject_problem(good), None, "{good}");
        }
    }

    #[test]
    fn subject_without_area_too_long_or_with_period_is_reported() {
        for (bad, part) in [
            ("Batch inserts", "area"),
            ("Store: batch inserts", "area"),
            ("store batch: inserts", "area"),
            ("store: ", "area"),
            ("store: batch inserts.", "period"),
            (&format!("a: {}", "x".repeat(70)), "72"),
        ] {
            let problem = subject_problem(bad);
            assert!(problem.is_some_and(|problem| problem.contains(part)), "{bad}: {problem:?}");
        }
    }

    #[test]
    fn tree_without_git_is_skipped() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(check(dir.path()), Vec::<String>::new());
    }
}
