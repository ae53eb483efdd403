//! Restores the executable bit of a script.

use super::named::files_named;
use super::{Repair, file, first};
use crate::diff::{File, Files};
use crate::finding::Finding;
use crate::input::Input;

pub(super) fn repair(input: &Input<'_>, finding: &Finding, files: &dyn Files) -> Option<Repair> {
    files_named(input, first(finding), files).find_map(|path| {
        let before = file(files, &path)?;
        let is_script = before.content.starts_with(b"#!") && !before.is_executable;
        let after = File { is_executable: true, ..before.clone() };
        is_script.then(|| Repair { summary: format!("Make {path} executable"), path, before, after })
    })
}
