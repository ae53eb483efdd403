//! Parses a diff. Anything unknown is an error.

use std::borrow::Cow;

use super::quote::unquoted;
use super::refuse::{Reason, Refused};
use super::{CHANGED_LINES_MAX, DIFF_BYTES_MAX, FILES_MAX};

/// The changes of one file.
#[derive(Debug, Default)]
pub(super) struct FileDiff<'a> {
    pub(super) path: Cow<'a, str>,
    pub(super) is_new: bool,
    pub(super) is_deleted: bool,
    pub(super) old_mode: Option<Mode>,
    pub(super) new_mode: Option<Mode>,
    pub(super) hunks: Vec<Hunk<'a>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Plain,
    Executable,
}

#[derive(Debug)]
pub(super) struct Hunk<'a> {
    /// From 1; the line to insert after if the hunk replaces nothing.
    pub(super) old_start: usize,
    pub(super) new_start: usize,
    pub(super) lines: Vec<Line<'a>>,
}

#[derive(Debug)]
pub(super) struct Line<'a> {
    pub(super) kind: Kind,
    pub(super) text: &'a str,
    pub(super) has_end: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Same,
    Removed,
    Added,
}

pub(super) fn parse(diff: &str) -> Result<Vec<FileDiff<'_>>, Refused> {
    if diff.len() > DIFF_BYTES_MAX {
        return Err(Reason::TooLong.into());
    }
    if diff.trim().is_empty() {
        return Err(Reason::Empty.into());
    }
    let lines: Vec<&str> = diff.strip_suffix('\n').unwrap_or(diff).split('\n').collect();
    let mut reader = Reader { lines: &lines, at: 0, changed: 0 };
    let mut files: Vec<FileDiff<'_>> = Vec::new();
    while reader.at < lines.len() {
        if files.len() == FILES_MAX {
            return Err(Reason::TooManyFiles.into());
        }
        files.push(reader.file()?);
    }
    Ok(files)
}

struct Reader<'l, 'a> {
    lines: &'l [&'a str],
    at: usize,
    changed: usize,
}

impl<'a> Reader<'_, 'a> {
    fn peek(&self) -> Option<&'a str> {
        self.lines.get(self.at).copied()
    }

    fn take(&mut self, prefix: &str) -> Option<&'a str> {
        let rest = self.peek()?.strip_prefix(prefix)?;
        self.at += 1;
        Some(rest)
    }

    fn file(&mut self) -> Result<FileDiff<'a>, Refused> {
        let mut file = FileDiff::default();
        let header = self.take("diff --git ");
        if let Some(header) = header {
            file.path = named_twice(header)?;
            self.extended(&mut file)?;
        }
        if let Some(old) = self.take("--- ") {
            let new = self.take("+++ ").ok_or(Reason::Malformed)?;
            let (old, new) = (side(old, "a/")?, side(new, "b/")?);
            let (is_new, is_deleted) = (old.is_none(), new.is_none());
            let path = new.or_else(|| old.clone()).ok_or(Reason::Malformed)?;
            let is_same = old.is_none_or(|old| old == path) && (header.is_none() || file.path == path);
            if !is_same {
                return Err(Reason::Renamed.at(&path));
            }
            if header.is_some() && (file.is_new != is_new || file.is_deleted != is_deleted) {
                return Err(Reason::Malformed.at(&path));
            }
            (file.path, file.is_new, file.is_deleted) = (path, is_new, is_deleted);
            while self.peek().is_some_and(|line| line.starts_with("@@ ")) {
                file.hunks.push(self.hunk()?);
            }
            if file.hunks.is_empty() {
                return Err(Reason::Malformed.at(&file.path));
            }
        } else if header.is_none() {
            return Err(Reason::Malformed.into());
        }
        let changes_mode = file.old_mode != file.new_mode;
        let is_something = !file.hunks.is_empty() || changes_mode || file.is_new || file.is_deleted;
        if is_something { Ok(file) } else { Err(Reason::Empty.at(&file.path)) }
    }

    /// Parses the extended headers between `diff --git` and `---`.
    fn extended(&mut self, file: &mut FileDiff<'a>) -> Result<(), Refused> {
        while let Some(line) = self.peek() {
            if line.starts_with("--- ") || line.starts_with("diff --git ") {
                break;
            }
            let path = file.path.clone();
            let at = |reason: Reason| reason.at(&path);
            if let Some(mode) = line.strip_prefix("old mode ") {
                file.old_mode = Some(mode_of(mode).map_err(at)?);
            } else if let Some(mode) = line.strip_prefix("new mode ") {
                file.new_mode = Some(mode_of(mode).map_err(at)?);
            } else if let Some(mode) = line.strip_prefix("new file mode ") {
                (file.is_new, file.new_mode) = (true, Some(mode_of(mode).map_err(at)?));
            } else if let Some(mode) = line.strip_prefix("deleted file mode ") {
                (file.is_deleted, file.old_mode) = (true, Some(mode_of(mode).map_err(at)?));
            } else if let Some(index) = line.strip_prefix("index ") {
                if let Some((_, mode)) = index.split_once(' ') {
                    mode_of(mode).map_err(at)?;
                }
            } else if ["rename ", "copy ", "similarity ", "dissimilarity "]
                .iter()
                .any(|word| line.starts_with(word))
            {
                return Err(at(Reason::Renamed));
            } else if line.starts_with("Binary files ") || line.starts_with("GIT binary patch") {
                return Err(at(Reason::Binary));
            } else {
                return Err(at(Reason::Malformed));
            }
            self.at += 1;
        }
        Ok(())
    }

    fn hunk(&mut self) -> Result<Hunk<'a>, Refused> {
        let header = self.take("@@ -").ok_or(Reason::Malformed)?;
        let (ranges, _) = header.split_once(" @@").ok_or(Reason::Malformed)?;
        let (old, new) = ranges.split_once(" +").ok_or(Reason::Malformed)?;
        let (old_start, mut old_left) = range(old)?;
        let (new_start, mut new_left) = range(new)?;
        let mut lines: Vec<Line<'a>> = Vec::new();
        while old_left > 0 || new_left > 0 {
            let line = self.peek().ok_or(Reason::Malformed)?;
            self.at += 1;
            // Editors strip the trailing space of an empty context line.
            let mut chars = line.chars();
            let kind = match chars.next() {
                Some(' ') | None => Kind::Same,
                Some('-') => Kind::Removed,
                Some('+') => Kind::Added,
                _ => return Err(Reason::Malformed.into()),
            };
            let takes =
                |left: usize, wanted: bool| left.checked_sub(usize::from(wanted)).ok_or(Reason::Malformed);
            old_left = takes(old_left, kind != Kind::Added)?;
            new_left = takes(new_left, kind != Kind::Removed)?;
            self.changed += usize::from(kind != Kind::Same);
            if self.changed > CHANGED_LINES_MAX {
                return Err(Reason::TooManyLines.into());
            }
            let has_end = !self.peek().is_some_and(|next| next.starts_with("\\ No newline"));
            self.at += usize::from(!has_end);
            lines.push(Line { kind, text: chars.as_str(), has_end });
        }
        Ok(Hunk { old_start, new_start, lines })
    }
}

/// Parses `a/PATH b/PATH` with equal paths.
fn named_twice(header: &str) -> Result<Cow<'_, str>, Refused> {
    if header.starts_with('"') {
        let read = || {
            let (old, rest) = unquoted(header)?;
            let (new, rest) = unquoted(rest.strip_prefix(' ')?)?;
            rest.is_empty().then_some((old, new))
        };
        let (old, new) = read().ok_or(Reason::Path)?;
        return match (old.strip_prefix("a/"), new.strip_prefix("b/")) {
            (Some(old), Some(new)) if old == new => Ok(Cow::Owned(new.to_owned())),
            _ => Err(Reason::Renamed.into()),
        };
    }
    let half = header.len().checked_sub(1).filter(|rest| rest % 2 == 0).map(|rest| rest / 2);
    let halves = half.and_then(|half| Some((header.get(..half)?, header.get(half..)?.strip_prefix(' ')?)));
    let (old, new) = halves.ok_or(Reason::Renamed)?;
    match (old.strip_prefix("a/"), new.strip_prefix("b/")) {
        (Some(old), Some(new)) if old == new => Ok(Cow::Borrowed(new)),
        _ => Err(Reason::Renamed.into()),
    }
}

fn side<'a>(text: &'a str, prefix: &str) -> Result<Option<Cow<'a, str>>, Refused> {
    // Git puts a tab after a name that contains a space.
    let text = text.strip_suffix('\t').unwrap_or(text);
    if text == "/dev/null" {
        return Ok(None);
    }
    let refused = || Reason::Path.at(text);
    if text.starts_with('"') {
        let (name, rest) = unquoted(text).ok_or_else(refused)?;
        let path = name.strip_prefix(prefix).filter(|_| rest.is_empty()).ok_or_else(refused)?;
        return Ok(Some(Cow::Owned(path.to_owned())));
    }
    text.strip_prefix(prefix).map(|path| Some(Cow::Borrowed(path))).ok_or_else(refused)
}

fn mode_of(text: &str) -> Result<Mode, Reason> {
    match text {
        "100644" => Ok(Mode::Plain),
        "100755" => Ok(Mode::Executable),
        "120000" => Err(Reason::Symlink),
        "160000" => Err(Reason::Submodule),
        _ => Err(Reason::Malformed),
    }
}

/// Parses `12,3` or `12`.
fn range(text: &str) -> Result<(usize, usize), Refused> {
    let (start, count) = text.split_once(',').unwrap_or((text, "1"));
    let number = |text: &str| {
        let is_plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        is_plain.then(|| text.parse::<usize>().ok()).flatten().ok_or(Reason::Malformed)
    };
    Ok((number(start)?, number(count)?))
}
