//! Automatic fixes for the findings of some rules, in the form of diffs.

mod executable;
mod field;
mod file_names;
mod line_endings;
mod private;

use serde::{Deserialize, Serialize};

use crate::diff::{self, CommitTree, DiffPermit, FileContent, TreeEntry};
use crate::finding::{AnalysisResult, Finding, LineRange};
use crate::input::AnalysisInput;

pub use private::is_private;

/// Limits for files that are shown to an analyzer: their number, the size of each, and their total size. Files that
/// exceed them are left out.
pub const READ_FILES_MAX: usize = 4;
pub const READ_FILE_BYTES_MAX: usize = 16 * 1024;
pub const READ_BYTES_MAX: usize = 32 * 1024;

/// A change that fixes the failure. Its diff applies to the failing commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FixSuggestion {
    /// One line of text, usable as the title of a commit.
    pub summary: String,
    /// The change in the format of `git diff`.
    pub diff: String,
}

/// The repair of one file.
struct FileRepair {
    path: String,
    before: FileContent,
    after: FileContent,
    summary: String,
}

/// A function that may be able to fix a finding.
type RepairFn = fn(&AnalysisInput<'_>, &Finding, &dyn CommitTree) -> Option<FileRepair>;
const MAKERS: &[(&[&str], RepairFn)] = &[
    (&["not-executable", "permission-denied", "exit-126"], executable::repair_executable_bit),
    (
        &["line-ends", "interpreter-missing", "command-missing", "command-not-found", "shell-syntax"],
        line_endings::repair_line_endings,
    ),
    (&["pipeline-field"], field::repair_field),
];

/// Returns a fix for the finding if there is one and it applies to the failing commit.
pub fn suggest_fix(
    input: &AnalysisInput<'_>,
    finding: &Finding,
    files: &dyn CommitTree,
    permit: DiffPermit,
) -> Option<FixSuggestion> {
    let rule = finding.rule.as_deref()?;
    let makers = MAKERS.iter().filter(|(rules, _)| rules.contains(&rule));
    let repair = makers.filter_map(|(_, make)| make(input, finding, files)).next()?;
    let text = diff::diff(&repair.path, &repair.before, &repair.after);
    let changed = diff::apply(&text, files, permit).ok()?;
    let is_meant = matches!(changed.as_slice(), [only] if only.after.as_ref() == Some(&repair.after));
    is_meant.then_some(FixSuggestion { summary: repair.summary, diff: text })
}

/// Returns files of the commit that help to understand the failure: files that the evidence or the step's script names.
/// [Private](is_private) files are left out.
pub fn relevant_files(
    input: &AnalysisInput<'_>,
    analysis: &AnalysisResult,
    files: &dyn CommitTree,
) -> Vec<(String, String)> {
    let ranges = match analysis {
        AnalysisResult::Found(finding) => &finding.evidence,
        AnalysisResult::NotEnoughEvidence(unexplained) => &unexplained.worth_a_look,
    };
    let mut left = READ_BYTES_MAX;
    let readable = file_names::named_files(input, ranges, files).filter_map(|path| {
        let content = regular_file(files, &path)?.text()?.to_owned();
        if content.len() > READ_FILE_BYTES_MAX.min(left) || is_private(&path, &content) {
            return None;
        }
        left -= content.len();
        Some((path, content))
    });
    readable.take(READ_FILES_MAX).collect()
}

/// The first range of evidence, which is the most significant one.
fn first_evidence(finding: &Finding) -> &[LineRange] {
    finding.evidence.get(..1).unwrap_or_default()
}

fn regular_file(files: &dyn CommitTree, path: &str) -> Option<FileContent> {
    match files.entry(path)? {
        TreeEntry::File(file) => Some(file),
        TreeEntry::Directory | TreeEntry::Symlink | TreeEntry::Submodule => None,
    }
}
