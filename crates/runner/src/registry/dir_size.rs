//! Measures the size of directories.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Every entry counts as at least this many bytes, so that a million empty files do not count as nothing.
const ENTRY_BYTES: u64 = 512;

/// Returns the size of all entries below `dir`, without following symlinks. Stops counting above `bytes_max`.
pub(super) fn dir_size(dir: &Path, bytes_max: u64) -> io::Result<u64> {
    let mut bytes = 0_u64;
    let mut waiting: Vec<PathBuf> = vec![dir.to_owned()];
    while let Some(dir) = waiting.pop() {
        let entries = match fs::read_dir(&dir) {
            // The entry may have been removed during the walk.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            other => other?,
        };
        for entry in entries {
            let entry = entry?;
            let Ok(found) = entry.metadata() else { continue };
            bytes += ENTRY_BYTES.max(if found.is_file() { found.size() } else { 0 });
            if bytes > bytes_max {
                return Ok(bytes);
            }
            if found.is_dir() {
                waiting.push(entry.path());
            }
        }
    }
    Ok(bytes)
}
