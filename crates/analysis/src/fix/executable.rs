//! Fix: makes a script executable again.

use super::file_names::named_files;
use super::{FileRepair, first_evidence, regular_file};
use crate::diff::{CommitTree, FileContent};
use crate::finding::Finding;
use crate::input::AnalysisInput;

pub(super) fn repair_executable_bit(
    input: &AnalysisInput<'_>,
    finding: &Finding,
    files: &dyn CommitTree,
) -> Option<FileRepair> {
    named_files(input, first_evidence(finding), files).find_map(|path| {
        let before = regular_file(files, &path)?;
        let is_script = before.content.starts_with(b"#!") && !before.is_executable;
        let after = FileContent { is_executable: true, ..before.clone() };
        is_script.then(|| FileRepair { summary: format!("Make {path} executable"), path, before, after })
    })
}
