//! Automatic fixes for some rules, as diffs.

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

/// Limits for files that are shown to an analyzer; longer ones are left out.
pub const READ_FILES_MAX: usize = 4;
pub const READ_FILE_BYTES_MAX: usize = 16 * 1024;
pub const READ_BYTES_MAX: usize = 32 * 1024;

/// A change that fixes the failure. It applies to the failing commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fix {
    /// One line, usable as a commit title.
    pub summary: String,
    /// In the format of `git diff`.
    pub diff: String,
}

/// The change of one file.
struct Repair {
    path: String,
    before: File,
    after: File,
    summary: String,
}

/// Rules and the functions that may be able to fix their findings.
type Maker = fn(&Input<'_>, &Finding, &dyn Files) -> Option<Repair>;
const MAKERS: &[(&[&str], Maker)] = &[
    (&["not-executable", "permission-denied", "exit-126"], executable::repair),
    (
        &["line-ends", "interpreter-missing", "command-missing", "command-not-found", "shell-syntax"],
        line_ends::repair,
    ),
    (&["pipeline-field"], field::repair),
];

/// Returns a fix for the finding if there is one and it applies to the failing commit.
pub fn suggest(input: &Input<'_>, finding: &Finding, files: &dyn Files, permit: Permit) -> Option<Fix> {
    let rule = finding.rule.as_deref()?;
    let makers = MAKERS.iter().filter(|(rules, _)| rules.contains(&rule));
    let repair = makers.filter_map(|(_, make)| make(input, finding, files)).next()?;
    let text = diff::diff(&repair.path, &repair.before, &repair.after);
    let changed = diff::apply(&text, files, permit).ok()?;
    let is_meant = matches!(changed.as_slice(), [only] if only.after.as_ref() == Some(&repair.after));
    is_meant.then_some(Fix { summary: repair.summary, diff: text })
}

/// Returns files of the commit that help to understand the failure: those that the evidence names, and the script.
/// [Private](is_private) files are left out.
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

/// The most significant range of evidence.
fn first(finding: &Finding) -> &[LineRange] {
    finding.evidence.get(..1).unwrap_or_default()
}

fn file(files: &dyn Files, path: &str) -> Option<File> {
    match files.entry(path)? {
        Entry::File(file) => Some(file),
        Entry::Directory | Entry::Symlink | Entry::Submodule => None,
    }
}
