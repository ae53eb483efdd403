//! Fix: corrects a misspelled field in a pipeline definition.

use berth_definition::{DefinitionDiagnostic, DiagnosticSeverity, parse};

use super::{FileRepair, regular_file};
use crate::clean::clean;
use crate::diff::{CommitTree, FileContent};
use crate::finding::Finding;
use crate::input::AnalysisInput;

/// Maximum distance, in lines, between the error message and the name of the file.
const NEAR_LINES: usize = 8;

pub(super) fn repair_field(
    input: &AnalysisInput<'_>,
    finding: &Finding,
    files: &dyn CommitTree,
) -> Option<FileRepair> {
    let path = find_definition(input, finding)?;
    let before = regular_file(files, &path)?;
    let content = correct_fields(before.text()?)?.into_bytes();
    let after = FileContent { content, is_executable: before.is_executable };
    Some(FileRepair { summary: format!("Fix a misspelled field in {path}"), path, before, after })
}

/// Returns the first `.berth/<slug>/pipeline.yaml` near the evidence.
fn find_definition(input: &AnalysisInput<'_>, finding: &Finding) -> Option<String> {
    let at = finding.evidence.first()?.first.checked_sub(input.first_line.max(1))?;
    let near = input.lines.get(at.saturating_sub(NEAR_LINES)..(at + NEAR_LINES).min(input.lines.len()))?;
    near.iter().find_map(|line| {
        let line = clean(line);
        let start = line.find(".berth/")?;
        let name = line[start..].split(|c: char| c.is_whitespace() || "'\"`:,;()".contains(c)).next()?;
        let is_definition = name.split('/').count() == 3 && name.ends_with("/pipeline.yaml");
        is_definition.then(|| name.to_owned())
    })
}

/// Replaces unknown fields with the suggested ones. Returns `None` if that does not reduce the number of errors.
fn correct_fields(text: &str) -> Option<String> {
    let found = parse(text).diagnostics;
    let mut lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
    // Starts at the end, so that the columns of earlier fields stay correct.
    let misspelt: Vec<&DefinitionDiagnostic> =
        found.iter().rev().filter(|found| found.code == "unknown_field").collect();
    for diagnostic in &misspelt {
        let Some(meant) = &diagnostic.suggestion else { continue };
        let line = lines.get_mut(usize::try_from(diagnostic.line).ok()?.checked_sub(1)?)?;
        let place =
            |column: u32| line.char_indices().map(|(at, _)| at).nth(usize::try_from(column).ok()? - 1);
        let (start, end) = (place(diagnostic.column)?, place(diagnostic.end_column)?);
        line.replace_range(start..end, meant);
    }
    let after = lines.concat();
    let errors = |found: &[DefinitionDiagnostic]| {
        found.iter().filter(|found| found.severity == DiagnosticSeverity::Error).count()
    };
    let is_better = errors(&parse(&after).diagnostics) < errors(&found);
    is_better.then_some(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_repair_corrects_only_misspelled_fields() {
        let text = "version: 1\npipeline:\n  name: Shop # tmeout\n  steps:\n    - name: Build\n      type: script\n      tmeout: 5m\n      params: { run: make }\n";
        assert_eq!(correct_fields(text), Some(text.replace("      tmeout", "      timeout")));
        assert_eq!(correct_fields(&text.replace("      tmeout", "      timeout")), None);
        assert_eq!(correct_fields(&text.replace("      tmeout", "      whatever")), None);
    }
}
