//! Applies a diff to the files of a commit. All hunks must match exactly.

use super::parse::{FileDiff, Hunk, Kind, Mode, parse};
use super::refuse::{Permit, Reason, Refused, check_path, check_scripts};
use super::{Entry, FILE_BYTES_MAX, File, Files};

/// A file before and after the change; `None` if it does not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    pub path: String,
    pub before: Option<File>,
    pub after: Option<File>,
}

/// Returns the files that the diff changes. An error in any part rejects the whole diff.
pub fn apply(diff: &str, files: &dyn Files, permit: Permit) -> Result<Vec<Changed>, Refused> {
    let parsed = parse(diff)?;
    let mut changed: Vec<Changed> = Vec::with_capacity(parsed.len());
    for file in &parsed {
        check_path(&file.path, file.is_new, permit)?;
        if changed.iter().any(|earlier| clashes(&earlier.path, &file.path)) {
            return Err(Reason::Malformed.at(&file.path));
        }
        changed.push(apply_file(file, files)?);
    }
    Ok(changed)
}

/// Whether both are the same path, or one contains the other.
fn clashes(one: &str, other: &str) -> bool {
    let is_below =
        |upper: &str, lower: &str| lower.strip_prefix(upper).is_some_and(|rest| rest.starts_with('/'));
    let (one, other) = (one.to_lowercase(), other.to_lowercase());
    one == other || is_below(&one, &other) || is_below(&other, &one)
}

fn apply_file(diff: &FileDiff<'_>, files: &dyn Files) -> Result<Changed, Refused> {
    let at = |reason: Reason| reason.at(&diff.path);
    check_way(diff, files)?;
    let before = match files.entry(&diff.path) {
        None => None,
        Some(Entry::File(file)) => Some(file),
        Some(Entry::Symlink) => return Err(at(Reason::Symlink)),
        Some(Entry::Submodule) => return Err(at(Reason::Submodule)),
        Some(Entry::Directory) => return Err(at(Reason::DoesNotApply)),
    };
    if diff.is_new != before.is_none() {
        return Err(at(Reason::DoesNotApply));
    }
    let is_executable = before.as_ref().is_some_and(|file| file.is_executable);
    let old_fits = diff.old_mode.is_none_or(|mode| (mode == Mode::Executable) == is_executable);
    if !old_fits || (!diff.is_new && !diff.is_deleted && diff.old_mode.is_some() != diff.new_mode.is_some()) {
        return Err(at(Reason::DoesNotApply));
    }
    if before.as_ref().is_some_and(|file| file.content.len() > FILE_BYTES_MAX) {
        return Err(at(Reason::FileTooLong));
    }
    let old_text = match &before {
        Some(file) => file.text().ok_or_else(|| at(Reason::Binary))?,
        None => "",
    };
    let new_text = patched(old_text, &diff.hunks).ok_or_else(|| at(Reason::DoesNotApply))?;
    if new_text.contains('\0') {
        return Err(at(Reason::Binary));
    }
    if new_text.len() > FILE_BYTES_MAX {
        return Err(at(Reason::FileTooLong));
    }
    if diff.is_deleted && !new_text.is_empty() {
        return Err(at(Reason::DoesNotApply));
    }
    let is_executable = diff.new_mode.map_or(is_executable, |mode| mode == Mode::Executable);
    let after = (!diff.is_deleted).then(|| File { content: new_text.clone().into_bytes(), is_executable });
    check_scripts(&diff.path, before.is_some().then_some(old_text), after.is_some().then_some(&new_text))?;
    Ok(Changed { path: diff.path.to_string(), before, after })
}

/// All parents must be directories: a symlink would lead elsewhere.
fn check_way(diff: &FileDiff<'_>, files: &dyn Files) -> Result<(), Refused> {
    for (end, _) in diff.path.match_indices('/') {
        match files.entry(&diff.path[..end]) {
            Some(Entry::Directory) | None => {}
            Some(Entry::Symlink) => return Err(Reason::Symlink.at(&diff.path)),
            Some(Entry::Submodule) => return Err(Reason::Submodule.at(&diff.path)),
            Some(Entry::File(_)) => return Err(Reason::DoesNotApply.at(&diff.path)),
        }
    }
    Ok(())
}

fn patched(old: &str, hunks: &[Hunk<'_>]) -> Option<String> {
    let old: Vec<&str> = old.split_inclusive('\n').collect();
    let mut out: Vec<String> = Vec::new();
    let mut next = 0;
    for hunk in hunks {
        let has = |kind: Kind| hunk.lines.iter().any(|line| line.kind != kind);
        // An empty side of a hunk names the line before it.
        let begin =
            |start: usize, has_lines: bool| if has_lines { start.checked_sub(1) } else { Some(start) };
        let start = begin(hunk.old_start, has(Kind::Added))?;
        if start < next || start > old.len() {
            return None;
        }
        out.extend(old[next..start].iter().map(ToString::to_string));
        if begin(hunk.new_start, has(Kind::Removed))? != out.len() {
            return None;
        }
        next = start;
        for line in &hunk.lines {
            let text = format!("{}{}", line.text, if line.has_end { "\n" } else { "" });
            if line.kind != Kind::Added {
                if *old.get(next)? != text {
                    return None;
                }
                next += 1;
            }
            if line.kind != Kind::Removed {
                out.push(text);
            }
        }
    }
    out.extend(old[next..].iter().map(ToString::to_string));
    // Only the last line may lack a newline.
    let is_whole = out.iter().rev().skip(1).all(|line| line.ends_with('\n'));
    is_whole.then(|| out.concat())
}
