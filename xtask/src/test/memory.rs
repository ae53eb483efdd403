//! Puts temporary files of the tests into memory if there is enough: disk IO would cost minutes.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::TempDir;

const SHARED_MEMORY: &str = "/dev/shm";
const PREFIX: &str = "berth-test-";
/// More than twice what a run of all tests needs.
const FREE_MIN: u64 = 4 << 30;

/// Returns a directory in memory; `None` if temporary files stay on disk.
pub(super) fn directory() -> Option<TempDir> {
    let free = rustix::fs::statvfs(SHARED_MEMORY).ok().map(|it| it.f_bavail * it.f_frsize)?;
    if free < FREE_MIN || !is_tmpfs(Path::new(SHARED_MEMORY)) {
        return None;
    }
    remove_left_over();
    let prefix = format!("{PREFIX}{}-", std::process::id());
    let dir = tempfile::Builder::new().prefix(&prefix).tempdir_in(SHARED_MEMORY).ok()?;
    // PostgreSQL runs as a different user below it.
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o1777)).ok()?;
    Some(dir)
}

/// Removes directories of killed runs, which have the pid in their name.
fn remove_left_over() {
    for entry in std::fs::read_dir(SHARED_MEMORY).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next());
        if process.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
            // Directories of other users stay.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

fn is_tmpfs(path: &Path) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mut of_path = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        (Path::new(words.next()?) == path).then(|| words.next())?
    });
    of_path.next_back() == Some("tmpfs")
}
