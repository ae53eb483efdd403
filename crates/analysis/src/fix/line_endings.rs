//! Fix: converts the CRLF line endings of a script. With them, the `#!` line names an interpreter that does not exist.

use super::file_names::named_files;
use super::{FileRepair, first_evidence, regular_file};
use crate::diff::{CommitTree, FileContent};
use crate::finding::Finding;
use crate::input::AnalysisInput;

pub(super) fn repair_line_endings(
    input: &AnalysisInput<'_>,
    finding: &Finding,
    files: &dyn CommitTree,
) -> Option<FileRepair> {
    named_files(input, first_evidence(finding), files).find_map(|path| {
        let before = regular_file(files, &path)?;
        let text = before.text()?;
        let first = text.split_inclusive('\n').next()?;
        let is_broken = first.starts_with("#!") && first.ends_with("\r\n");
        let content = text.replace("\r\n", "\n").into_bytes();
        let after = FileContent { content, is_executable: before.is_executable };
        is_broken.then(|| FileRepair {
            summary: format!("Convert {path} to Unix line endings"),
            path,
            before,
            after,
        })
    })
}
