//! Cleans up after an earlier runner process. Its steps are killed, not taken over.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use crate::attempt::dirs::{attempt_dir_of_entry, attempts_dir, remove_attempt};
use crate::attempt::removal::remove_tree;
use crate::process::tree::kill_by_environment;
use crate::sources::sources_dir;

/// The number of leftovers that [`kill_leftovers`] removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeftoverCounts {
    /// Number of killed processes.
    pub processes: usize,
    /// Number of attempts whose directories were removed.
    pub attempts: usize,
}

/// Kills all processes of attempts whose workspace is below `work_dir`, and removes the attempts' directories and kept
/// checkouts. No other runner may be using `work_dir`. [`StepRunner::start`](crate::StepRunner::start) calls this before it asks for work.
pub fn kill_leftovers(work_dir: &Path) -> io::Result<LeftoverCounts> {
    let work_dir = match work_dir.canonicalize() {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(LeftoverCounts { processes: 0, attempts: 0 });
        }
        Err(error) => return Err(error),
    };
    let dir = attempts_dir(&work_dir);
    let mut entry = b"BERTH_WORKSPACE=".to_vec();
    entry.extend_from_slice(dir.as_os_str().as_encoded_bytes());
    entry.push(b'/');
    let processes = kill_by_environment(&entry);
    let entries = match fs::read_dir(&dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        other => Some(other?),
    };
    let found =
        entries.into_iter().flatten().map(|entry| entry.map(|entry| attempt_dir_of_entry(entry.path())));
    let attempts = found.collect::<io::Result<BTreeSet<_>>>()?;
    attempts.iter().for_each(|attempt| remove_attempt(attempt));
    remove_tree(&sources_dir(&work_dir));
    Ok(LeftoverCounts { processes, attempts: attempts.len() })
}
