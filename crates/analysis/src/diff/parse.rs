//! Parses a diff. Anything that is not understood is an error.

use std::borrow::Cow;

use super::policy::{DiffRejection, RejectionReason};
use super::quote::unquote_name;
use super::{CHANGED_LINES_MAX, DIFF_BYTES_MAX, FILES_MAX};

/// The changes of one file.
#[derive(Debug, Default)]
pub(super) struct FileDiff<'a> {
    pub(super) path: Cow<'a, str>,
    pub(super) is_new: bool,
    pub(super) is_deleted: bool,
    pub(super) old_mode: Option<FileMode>,
    pub(super) new_mode: Option<FileMode>,
    pub(super) hunks: Vec<DiffHunk<'a>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileMode {
    Plain,
    Executable,
}

#[derive(Debug)]
pub(super) struct DiffHunk<'a> {
    /// First line of the hunk in the old file, starting at 1. If the hunk only adds lines, they are inserted after this
    /// line.
    pub(super) old_start: usize,
    pub(super) new_start: usize,
    pub(super) lines: Vec<DiffLine<'a>>,
}

#[derive(Debug)]
pub(super) struct DiffLine<'a> {
    pub(super) kind: LineKind,
    pub(super) text: &'a str,
    pub(super) has_end: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineKind {
    Same,
    Removed,
    Added,
}

pub(super) fn parse(diff: &str) -> Result<Vec<FileDiff<'_>>, DiffRejection> {
    if diff.len() > DIFF_BYTES_MAX {
        return Err(RejectionReason::TooLong.into());
    }
    if diff.trim().is_empty() {
        return Err(RejectionReason::Empty.into());
    }
    let lines: Vec<&str> = diff.strip_suffix('\n').unwrap_or(diff).split('\n').collect();
    let mut reader = DiffParser { lines: &lines, at: 0, changed: 0 };
    let mut files: Vec<FileDiff<'_>> = Vec::new();
    while reader.at < lines.len() {
        if files.len() == FILES_MAX {
            return Err(RejectionReason::TooManyFiles.into());
        }
        files.push(reader.parse_file()?);
    }
    Ok(files)
}

struct DiffParser<'l, 'a> {
    lines: &'l [&'a str],
    at: usize,
    changed: usize,
}

impl<'a> DiffParser<'_, 'a> {
    fn peek(&self) -> Option<&'a str> {
        self.lines.get(self.at).copied()
    }

    fn take_prefix(&mut self, prefix: &str) -> Option<&'a str> {
        let rest = self.peek()?.strip_prefix(prefix)?;
        self.at += 1;
        Some(rest)
    }

    fn parse_file(&mut self) -> Result<FileDiff<'a>, DiffRejection> {
        let mut file = FileDiff::default();
        let header = self.take_prefix("diff --git ");
        if let Some(header) = header {
            file.path = parse_git_header(header)?;
            self.parse_extended_headers(&mut file)?;
        }
        if let Some(old) = self.take_prefix("--- ") {
            let new = self.take_prefix("+++ ").ok_or(RejectionReason::Malformed)?;
            let (old, new) = (parse_side(old, "a/")?, parse_side(new, "b/")?);
            let (is_new, is_deleted) = (old.is_none(), new.is_none());
            let path = new.or_else(|| old.clone()).ok_or(RejectionReason::Malformed)?;
            let is_same = old.is_none_or(|old| old == path) && (header.is_none() || file.path == path);
            if !is_same {
                return Err(RejectionReason::Renamed.at(&path));
            }
            if header.is_some() && (file.is_new != is_new || file.is_deleted != is_deleted) {
                return Err(RejectionReason::Malformed.at(&path));
            }
            (file.path, file.is_new, file.is_deleted) = (path, is_new, is_deleted);
            while self.peek().is_some_and(|line| line.starts_with("@@ ")) {
                file.hunks.push(self.parse_hunk()?);
            }
            if file.hunks.is_empty() {
                return Err(RejectionReason::Malformed.at(&file.path));
            }
        } else if header.is_none() {
            return Err(RejectionReason::Malformed.into());
        }
        let changes_mode = file.old_mode != file.new_mode;
        let is_something = !file.hunks.is_empty() || changes_mode || file.is_new || file.is_deleted;
        if is_something { Ok(file) } else { Err(RejectionReason::Empty.at(&file.path)) }
    }

    /// Parses the extended headers between `diff --git` and `---`.
    fn parse_extended_headers(&mut self, file: &mut FileDiff<'a>) -> Result<(), DiffRejection> {
        while let Some(line) = self.peek() {
            if line.starts_with("--- ") || line.starts_with("diff --git ") {
                break;
            }
            let path = file.path.clone();
            let at = |reason: RejectionReason| reason.at(&path);
            if let Some(mode) = line.strip_prefix("old mode ") {
                file.old_mode = Some(parse_mode(mode).map_err(at)?);
            } else if let Some(mode) = line.strip_prefix("new mode ") {
                file.new_mode = Some(parse_mode(mode).map_err(at)?);
            } else if let Some(mode) = line.strip_prefix("new file mode ") {
                (file.is_new, file.new_mode) = (true, Some(parse_mode(mode).map_err(at)?));
            } else if let Some(mode) = line.strip_prefix("deleted file mode ") {
                (file.is_deleted, file.old_mode) = (true, Some(parse_mode(mode).map_err(at)?));
            } else if let Some(index) = line.strip_prefix("index ") {
                if let Some((_, mode)) = index.split_once(' ') {
                    parse_mode(mode).map_err(at)?;
                }
            } else if ["rename ", "copy ", "similarity ", "dissimilarity "]
                .iter()
                .any(|word| line.starts_with(word))
            {
                return Err(at(RejectionReason::Renamed));
            } else if line.starts_with("Binary files ") || line.starts_with("GIT binary patch") {
                return Err(at(RejectionReason::Binary));
            } else {
                return Err(at(RejectionReason::Malformed));
            }
            self.at += 1;
        }
        Ok(())
    }

    fn parse_hunk(&mut self) -> Result<DiffHunk<'a>, DiffRejection> {
        let header = self.take_prefix("@@ -").ok_or(RejectionReason::Malformed)?;
        let (ranges, _) = header.split_once(" @@").ok_or(RejectionReason::Malformed)?;
        let (old, new) = ranges.split_once(" +").ok_or(RejectionReason::Malformed)?;
        let (old_start, mut old_left) = parse_range(old)?;
        let (new_start, mut new_left) = parse_range(new)?;
        let mut lines: Vec<DiffLine<'a>> = Vec::new();
        while old_left > 0 || new_left > 0 {
            let line = self.peek().ok_or(RejectionReason::Malformed)?;
            self.at += 1;
            // An empty line counts as a context line, because some editors strip the space at its start.
            let mut chars = line.chars();
            let kind = match chars.next() {
                Some(' ') | None => LineKind::Same,
                Some('-') => LineKind::Removed,
                Some('+') => LineKind::Added,
                _ => return Err(RejectionReason::Malformed.into()),
            };
            let takes = |left: usize, wanted: bool| {
                left.checked_sub(usize::from(wanted)).ok_or(RejectionReason::Malformed)
            };
            old_left = takes(old_left, kind != LineKind::Added)?;
            new_left = takes(new_left, kind != LineKind::Removed)?;
            self.changed += usize::from(kind != LineKind::Same);
            if self.changed > CHANGED_LINES_MAX {
                return Err(RejectionReason::TooManyLines.into());
            }
            let has_end = !self.peek().is_some_and(|next| next.starts_with("\\ No newline"));
            self.at += usize::from(!has_end);
            lines.push(DiffLine { kind, text: chars.as_str(), has_end });
        }
        Ok(DiffHunk { old_start, new_start, lines })
    }
}

/// Parses `a/PATH b/PATH`, where both paths must be equal.
fn parse_git_header(header: &str) -> Result<Cow<'_, str>, DiffRejection> {
    if header.starts_with('"') {
        let read = || {
            let (old, rest) = unquote_name(header)?;
            let (new, rest) = unquote_name(rest.strip_prefix(' ')?)?;
            rest.is_empty().then_some((old, new))
        };
        let (old, new) = read().ok_or(RejectionReason::Path)?;
        return match (old.strip_prefix("a/"), new.strip_prefix("b/")) {
            (Some(old), Some(new)) if old == new => Ok(Cow::Owned(new.to_owned())),
            _ => Err(RejectionReason::Renamed.into()),
        };
    }
    let half = header.len().checked_sub(1).filter(|rest| rest % 2 == 0).map(|rest| rest / 2);
    let halves = half.and_then(|half| Some((header.get(..half)?, header.get(half..)?.strip_prefix(' ')?)));
    let (old, new) = halves.ok_or(RejectionReason::Renamed)?;
    match (old.strip_prefix("a/"), new.strip_prefix("b/")) {
        (Some(old), Some(new)) if old == new => Ok(Cow::Borrowed(new)),
        _ => Err(RejectionReason::Renamed.into()),
    }
}

fn parse_side<'a>(text: &'a str, prefix: &str) -> Result<Option<Cow<'a, str>>, DiffRejection> {
    // git writes a tab after a name that contains a space.
    let text = text.strip_suffix('\t').unwrap_or(text);
    if text == "/dev/null" {
        return Ok(None);
    }
    let refused = || RejectionReason::Path.at(text);
    if text.starts_with('"') {
        let (name, rest) = unquote_name(text).ok_or_else(refused)?;
        let path = name.strip_prefix(prefix).filter(|_| rest.is_empty()).ok_or_else(refused)?;
        return Ok(Some(Cow::Owned(path.to_owned())));
    }
    text.strip_prefix(prefix).map(|path| Some(Cow::Borrowed(path))).ok_or_else(refused)
}

fn parse_mode(text: &str) -> Result<FileMode, RejectionReason> {
    match text {
        "100644" => Ok(FileMode::Plain),
        "100755" => Ok(FileMode::Executable),
        "120000" => Err(RejectionReason::Symlink),
        "160000" => Err(RejectionReason::Submodule),
        _ => Err(RejectionReason::Malformed),
    }
}

/// Parses a range of lines such as `12,3` or `12`.
fn parse_range(text: &str) -> Result<(usize, usize), DiffRejection> {
    let (start, count) = text.split_once(',').unwrap_or((text, "1"));
    let number = |text: &str| {
        let is_plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        is_plain.then(|| text.parse::<usize>().ok()).flatten().ok_or(RejectionReason::Malformed)
    };
    Ok((number(start)?, number(count)?))
}
