//! Fixtures that are created once and copied for each test.

use std::fs::{File, create_dir_all};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// Returns the directory of a fixture, creating it if necessary.
///
/// A fixture is created again for every new build of `program`, and for every new `server` if its content refers to a
/// server. Each test is a separate process, so a file lock decides which of them creates the fixture.
pub fn template_dir(name: &str, program: &Path, server: &str, make: impl FnOnce(&Path)) -> PathBuf {
    let all = program.with_file_name("test-templates");
    create_dir_all(&all).unwrap_or_else(|error| panic!("{}: {error}", all.display()));
    let prefix = format!("{name}-");
    let mut key = DefaultHasher::new();
    (modified_at(program), server).hash(&mut key);
    let dir = all.join(format!("{prefix}{:016x}", key.finish()));
    let lock = File::create(all.join(format!("{name}.lock"))).and_then(|file| file.lock().map(|()| file));
    let _lock = lock.unwrap_or_else(|error| panic!("cannot lock the template {name}: {error}"));
    if dir.exists() {
        return dir;
    }
    for old in std::fs::read_dir(&all).into_iter().flatten().flatten() {
        if old.file_name().to_string_lossy().starts_with(&prefix) {
            let _ = std::fs::remove_dir_all(old.path());
        }
    }
    let draft = all.join(format!("draft-{name}"));
    let _ = std::fs::remove_dir_all(&draft);
    create_dir_all(&draft).unwrap_or_else(|error| panic!("{}: {error}", draft.display()));
    make(&draft);
    std::fs::rename(&draft, &dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    dir
}

/// Copies the files of a directory, but not its subdirectories, into an existing directory.
pub fn copy_dir(from: &Path, to: &Path) {
    let copy = || {
        for entry in std::fs::read_dir(from)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                std::fs::copy(entry.path(), to.join(entry.file_name()))?;
            }
        }
        Ok::<(), std::io::Error>(())
    };
    copy().unwrap_or_else(|error| panic!("cannot copy {} to {}: {error}", from.display(), to.display()));
}

fn modified_at(program: &Path) -> u128 {
    let changed = std::fs::metadata(program).and_then(|about| about.modified());
    let changed = changed.unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    changed.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos())
}
