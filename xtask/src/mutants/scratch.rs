//! The scratch copy of the workspace. It contains all mutations, each behind a switch, so that it is compiled only
//! once.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use super::catalog::SourceTexts;
use super::read;
use crate::tool::TaskResult;

/// For each file in `sim/mutations`: its path there, its path in the copy, the file that declares it as a module, and
/// the declaration.
const MODULES: [(&str, &str, &str, &str); 3] = [
    ("mutation.rs", "crates/core/src/mutation.rs", "crates/core/src/lib.rs", "pub mod mutation;"),
    ("tests/rules.rs", "sim/tests/it/mutations.rs", "sim/tests/it/main.rs", "mod mutations;"),
    (
        "tests/differential.rs",
        "crates/store/tests/it/differential/mutations.rs",
        "crates/store/tests/it/differential.rs",
        "mod mutations;",
    ),
];

/// Makes `copy` a copy of the workspace with the mutated sources. Unchanged files keep their modification time, so that
/// cargo recompiles only what has changed.
pub(super) fn write_copy(root: &Path, copy: &Path, mut mutated: SourceTexts) -> TaskResult {
    for (file, place, parent, declaration) in MODULES {
        mutated.insert(place.to_owned(), read(&root.join("sim/mutations").join(file))?);
        let parent_text = match mutated.remove(parent) {
            Some(text) => text,
            None => read(&root.join(parent))?,
        };
        mutated.insert(parent.to_owned(), format!("{parent_text}\n{declaration}\n"));
    }
    let mut expected = BTreeSet::new();
    for file in workspace_files(root)? {
        // The file was deleted, but the deletion has not been committed yet.
        if !root.join(&file).is_file() {
            continue;
        }
        if !mutated.contains_key(&file) {
            let content = std::fs::read(root.join(&file)).map_err(|error| format!("{file}: {error}"))?;
            write_if_changed(&copy.join(&file), &content)?;
        }
        expected.insert(file);
    }
    for (file, text) in mutated {
        write_if_changed(&copy.join(&file), text.as_bytes())?;
        expected.insert(file);
    }
    remove_stale(copy, copy, &expected)
}

/// Lists tracked files and new files that are not ignored.
fn workspace_files(root: &Path) -> Result<Vec<String>, String> {
    let args = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let output = Command::new("git").args(args).current_dir(root).output();
    let output = output.map_err(|error| format!("cannot run git: {error}"))?;
    if !output.status.success() {
        return Err(format!("git ls-files failed: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let names = String::from_utf8_lossy(&output.stdout);
    Ok(names.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect())
}

fn write_if_changed(path: &Path, content: &[u8]) -> TaskResult {
    if std::fs::read(path).is_ok_and(|present| present == content) {
        return Ok(());
    }
    let parent = path.parent().unwrap_or(path);
    let written = std::fs::create_dir_all(parent).and_then(|()| std::fs::write(path, content));
    written.map_err(|error| format!("cannot write {}: {error}", path.display()))
}

/// Removes files that the workspace no longer has, because cargo would still compile tests and modules in them.
fn remove_stale(copy: &Path, dir: &Path, expected: &BTreeSet<String>) -> TaskResult {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            remove_stale(copy, &path, expected)?;
            continue;
        }
        let name = path.strip_prefix(copy).unwrap_or(&path).to_string_lossy().into_owned();
        if !expected.contains(&name) {
            std::fs::remove_file(&path).map_err(|error| format!("cannot remove {name}: {error}"))?;
        }
    }
    Ok(())
}
