//! Applies a diff to the files of a commit. Every hunk must match exactly.

use super::parse::{DiffHunk, FileDiff, FileMode, LineKind, parse};
use super::policy::{DiffPermit, DiffRejection, RejectionReason, check_path, check_scripts};
use super::{CommitTree, FILE_BYTES_MAX, FileContent, TreeEntry};

/// A file before and after the change. `None` means that the file does not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedFile {
    pub path: String,
    pub before: Option<FileContent>,
    pub after: Option<FileContent>,
}

/// Applies a diff and returns the changed files. An error in any part rejects the whole diff.
pub fn apply(
    diff: &str,
    files: &dyn CommitTree,
    permit: DiffPermit,
) -> Result<Vec<ChangedFile>, DiffRejection> {
    let parsed = parse(diff)?;
    let mut changed: Vec<ChangedFile> = Vec::with_capacity(parsed.len());
    for file in &parsed {
        check_path(&file.path, file.is_new, permit)?;
        if changed.iter().any(|earlier| paths_clash(&earlier.path, &file.path)) {
            return Err(RejectionReason::Malformed.at(&file.path));
        }
        changed.push(apply_file(file, files)?);
    }
    Ok(changed)
}

/// Whether both paths are the same, or one is a directory that contains the other.
fn paths_clash(one: &str, other: &str) -> bool {
    let is_below =
        |upper: &str, lower: &str| lower.strip_prefix(upper).is_some_and(|rest| rest.starts_with('/'));
    let (one, other) = (one.to_lowercase(), other.to_lowercase());
    one == other || is_below(&one, &other) || is_below(&other, &one)
}

fn apply_file(diff: &FileDiff<'_>, files: &dyn CommitTree) -> Result<ChangedFile, DiffRejection> {
    let at = |reason: RejectionReason| reason.at(&diff.path);
    check_parents(diff, files)?;
    let before = match files.entry(&diff.path) {
        None => None,
        Some(TreeEntry::File(file)) => Some(file),
        Some(TreeEntry::Symlink) => return Err(at(RejectionReason::Symlink)),
        Some(TreeEntry::Submodule) => return Err(at(RejectionReason::Submodule)),
        Some(TreeEntry::Directory) => return Err(at(RejectionReason::DoesNotApply)),
    };
    if diff.is_new != before.is_none() {
        return Err(at(RejectionReason::DoesNotApply));
    }
    let is_executable = before.as_ref().is_some_and(|file| file.is_executable);
    let old_fits = diff.old_mode.is_none_or(|mode| (mode == FileMode::Executable) == is_executable);
    if !old_fits || (!diff.is_new && !diff.is_deleted && diff.old_mode.is_some() != diff.new_mode.is_some()) {
        return Err(at(RejectionReason::DoesNotApply));
    }
    if before.as_ref().is_some_and(|file| file.content.len() > FILE_BYTES_MAX) {
        return Err(at(RejectionReason::FileTooLong));
    }
    let old_text = match &before {
        Some(file) => file.text().ok_or_else(|| at(RejectionReason::Binary))?,
        None => "",
    };
    let new_text = apply_hunks(old_text, &diff.hunks).ok_or_else(|| at(RejectionReason::DoesNotApply))?;
    if new_text.contains('\0') {
        return Err(at(RejectionReason::Binary));
    }
    if new_text.len() > FILE_BYTES_MAX {
        return Err(at(RejectionReason::FileTooLong));
    }
    if diff.is_deleted && !new_text.is_empty() {
        return Err(at(RejectionReason::DoesNotApply));
    }
    let is_executable = diff.new_mode.map_or(is_executable, |mode| mode == FileMode::Executable);
    let after =
        (!diff.is_deleted).then(|| FileContent { content: new_text.clone().into_bytes(), is_executable });
    check_scripts(&diff.path, before.is_some().then_some(old_text), after.is_some().then_some(&new_text))?;
    Ok(ChangedFile { path: diff.path.to_string(), before, after })
}

/// Checks that all parents are directories, because a symlink would lead elsewhere.
fn check_parents(diff: &FileDiff<'_>, files: &dyn CommitTree) -> Result<(), DiffRejection> {
    for (end, _) in diff.path.match_indices('/') {
        match files.entry(&diff.path[..end]) {
            Some(TreeEntry::Directory) | None => {}
            Some(TreeEntry::Symlink) => return Err(RejectionReason::Symlink.at(&diff.path)),
            Some(TreeEntry::Submodule) => return Err(RejectionReason::Submodule.at(&diff.path)),
            Some(TreeEntry::File(_)) => return Err(RejectionReason::DoesNotApply.at(&diff.path)),
        }
    }
    Ok(())
}

fn apply_hunks(old: &str, hunks: &[DiffHunk<'_>]) -> Option<String> {
    let old: Vec<&str> = old.split_inclusive('\n').collect();
    let mut out: Vec<String> = Vec::new();
    let mut next = 0;
    for hunk in hunks {
        let has = |kind: LineKind| hunk.lines.iter().any(|line| line.kind != kind);
        // If a side of a hunk has no lines, its start is the number of the line before it.
        let begin =
            |start: usize, has_lines: bool| if has_lines { start.checked_sub(1) } else { Some(start) };
        let start = begin(hunk.old_start, has(LineKind::Added))?;
        if start < next || start > old.len() {
            return None;
        }
        out.extend(old[next..start].iter().map(ToString::to_string));
        if begin(hunk.new_start, has(LineKind::Removed))? != out.len() {
            return None;
        }
        next = start;
        for line in &hunk.lines {
            let text = format!("{}{}", line.text, if line.has_end { "\n" } else { "" });
            if line.kind != LineKind::Added {
                if *old.get(next)? != text {
                    return None;
                }
                next += 1;
            }
            if line.kind != LineKind::Removed {
                out.push(text);
            }
        }
    }
    out.extend(old[next..].iter().map(ToString::to_string));
    // Only the last line of a file may have no newline.
    let is_whole = out.iter().rev().skip(1).all(|line| line.ends_with('\n'));
    is_whole.then(|| out.concat())
}
