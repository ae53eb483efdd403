//! Converts a script with CRLF line endings, whose `#!` line names an interpreter that does not exist.

use super::named::files_named;
use super::{Repair, file, first};
use crate::diff::{File, Files};
use crate::finding::Finding;
use crate::input::Input;

pub(super) fn repair(input: &Input<'_>, finding: &Finding, files: &dyn Files) -> Option<Repair> {
    files_named(input, first(finding), files).find_map(|path| {
        let before = file(files, &path)?;
        let text = before.text()?;
        let first = text.split_inclusive('\n').next()?;
        let is_broken = first.starts_with("#!") && first.ends_with("\r\n");
        let content = text.replace("\r\n", "\n").into_bytes();
        let after = File { content, is_executable: before.is_executable };
        is_broken.then(|| Repair {
            summary: format!("Convert {path} to Unix line endings"),
            path,
            before,
            after,
        })
    })
}
