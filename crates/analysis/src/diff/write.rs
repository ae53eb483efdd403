//! Writes a diff of one file in the format of `git diff`.

use std::fmt::Write as _;
use std::ops::Range;

use super::FileContent;
use super::quote::quote_name;

const CONTEXT_LINES: usize = 3;

/// Returns the diff of a file's content and mode. It is empty if nothing changed or if one side is not text.
pub fn diff(path: &str, before: &FileContent, after: &FileContent) -> String {
    let (Some(old_text), Some(new_text)) = (before.text(), after.text()) else { return String::new() };
    if before == after {
        return String::new();
    }
    let (old_name, new_name) = (quote_name("a/", path), quote_name("b/", path));
    let mut out = format!("diff --git {old_name} {new_name}\n");
    if before.is_executable != after.is_executable {
        let _ = writeln!(out, "old mode {}\nnew mode {}", before.mode(), after.mode());
    }
    let old: Vec<&str> = old_text.split_inclusive('\n').collect();
    let new: Vec<&str> = new_text.split_inclusive('\n').collect();
    let edits = line_edits(&old, &new);
    if !edits.is_empty() {
        // git writes a tab after a name that contains a space.
        let end = if path.contains(' ') { "\t" } else { "" };
        let _ = writeln!(out, "--- {old_name}{end}\n+++ {new_name}{end}");
        for group in hunk_groups(&edits) {
            write_hunk(&mut out, &old, &new, group);
        }
    }
    out
}

/// Range of replaced lines, and range of the lines that replace them.
type LineEdit = (Range<usize>, Range<usize>);

/// Compares line by line if both files have the same number of lines. Otherwise replaces everything between the first
/// and the last difference.
fn line_edits(old: &[&str], new: &[&str]) -> Vec<LineEdit> {
    if old.len() != new.len() {
        let same = |(a, b): &(&&str, &&str)| a == b;
        let front = old.iter().zip(new).take_while(same).count();
        let (old_rest, new_rest) = (&old[front..], &new[front..]);
        let back = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(same).count();
        return vec![(front..old.len() - back, front..new.len() - back)];
    }
    let mut found: Vec<LineEdit> = Vec::new();
    for at in (0..old.len()).filter(|at| old[*at] != new[*at]) {
        match found.last_mut() {
            Some((old_range, new_range)) if old_range.end == at => {
                (old_range.end, new_range.end) = (at + 1, at + 1);
            }
            _ => found.push((at..at + 1, at..at + 1)),
        }
    }
    found
}

/// Groups edits into hunks. Edits whose context lines overlap go into the same hunk.
fn hunk_groups(edits: &[LineEdit]) -> Vec<&[LineEdit]> {
    edits.chunk_by(|one, next| next.0.start - one.0.end <= 2 * CONTEXT_LINES).collect()
}

fn write_hunk(out: &mut String, old: &[&str], new: &[&str], edits: &[LineEdit]) {
    let ([first, ..], [.., last]) = (edits, edits) else { return };
    let lead = first.0.start.min(CONTEXT_LINES);
    let tail = (old.len() - last.0.end).min(CONTEXT_LINES);
    let old_range = first.0.start - lead..last.0.end + tail;
    let new_range = first.1.start - lead..last.1.end + tail;
    let _ = writeln!(out, "@@ -{} +{} @@", format_range(&old_range), format_range(&new_range));
    let mut at = old_range.start;
    for (old_lines, new_lines) in edits {
        old[at..old_lines.start].iter().for_each(|line| write_line(out, ' ', line));
        old[old_lines.clone()].iter().for_each(|line| write_line(out, '-', line));
        new[new_lines.clone()].iter().for_each(|line| write_line(out, '+', line));
        at = old_lines.end;
    }
    old[at..old_range.end].iter().for_each(|line| write_line(out, ' ', line));
}

/// Formats a range as `start,count`, where lines start at 1. For an empty range, `start` is the line before it.
fn format_range(range: &Range<usize>) -> String {
    match range.len() {
        0 => format!("{},0", range.start),
        1 => format!("{}", range.start + 1),
        count => format!("{},{count}", range.start + 1),
    }
}

fn write_line(out: &mut String, mark: char, line: &str) {
    out.push(mark);
    out.push_str(line);
    if !line.ends_with('\n') {
        out.push_str("\n\\ No newline at end of file\n");
    }
}
