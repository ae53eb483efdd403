//! Fixes that rules know, as diffs. Where they cannot be sure there is only advice.

mod executable;
mod field;
mod line_ends;
mod named;
mod private;

use serde::{Deserialize, Serialize};

use crate::diff::{self, Entry, File, Files, Permit};
use crate::finding::{Analysis, Finding, LineRange};
use crate::input::Input;

pub use private::is_private;

/// Files that are shown to whoever explains a failure; what is longer is left out.
pub const READ_FILES_MAX: usize = 4;
pub const READ_FILE_BYTES_MAX: usize = 16 * 1024;
pub const READ_BYTES_MAX: usize = 32 * 1024;

/// A change that would mend the failure. It was seen to apply to the failing commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fix {
    /// One line, good as the title of a commit.
    pub summary: String,
    /// As `git diff` writes it.
    pub diff: String,
}

/// A file as it is, as it should be, and why.
struct Repair {
    path: String,
    before: File,
    after: File,
    summary: String,
}

/// Rules, and who may know how to mend what they find.
type Maker = fn(&Input<'_>, &Finding, &dyn Files) -> Option<Repair>;
const MAKERS: &[(&[&str], Maker)] = &[
    (&["not-executable", "permission-denied", "exit-126"], executable::repair),
    (
        &["line-ends", "interpreter-missing", "command-missing", "command-not-found", "shell-syntax"],
        line_ends::repair,
    ),
    (&["pipeline-field"], field::repair),
];

/// A fix for the finding, if a rule knows one and it applies to these files of the failing commit.
pub fn suggest(input: &Input<'_>, finding: &Finding, files: &dyn Files, permit: Permit) -> Option<Fix> {
    let rule = finding.rule.as_deref()?;
    let makers = MAKERS.iter().filter(|(rules, _)| rules.contains(&rule));
    let repair = makers.filter_map(|(_, make)| make(input, finding, files)).next()?;
    let text = diff::diff(&repair.path, &repair.before, &repair.after);
    let changed = diff::apply(&text, files, permit).ok()?;
    let is_meant = matches!(changed.as_slice(), [only] if only.after.as_ref() == Some(&repair.after));
    is_meant.then_some(Fix { summary: repair.summary, diff: text })
}

/// Files of the commit that a person would open to understand the failure: those that its evidence names, and its
/// script. None of them is [private](is_private).
pub fn worth_reading(input: &Input<'_>, analysis: &Analysis, files: &dyn Files) -> Vec<(String, String)> {
    let ranges = match analysis {
        Analysis::Found(finding) => &finding.evidence,
        Analysis::NotEnoughEvidence(unexplained) => &unexplained.worth_a_look,
    };
    let mut left = READ_BYTES_MAX;
    let readable = named::files_named(input, ranges, files).filter_map(|path| {
        let content = file(files, &path)?.text()?.to_owned();
        if content.len() > READ_FILE_BYTES_MAX.min(left) || is_private(&path, &content) {
            return None;
        }
        left -= content.len();
        Some((path, content))
    });
    readable.take(READ_FILES_MAX).collect()
}

/// The most telling of its evidence.
fn first(finding: &Finding) -> &[LineRange] {
    finding.evidence.get(..1).unwrap_or_default()
}

fn file(files: &dyn Files, path: &str) -> Option<File> {
    match files.entry(path)? {
        Entry::File(file) => Some(file),
        Entry::Directory | Entry::Symlink | Entry::Submodule => None,
    }
}
