//! Temporary files of the tests in memory, where there is enough of it: a disk that has to keep them costs minutes.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::TempDir;

const SHARED_MEMORY: &str = "/dev/shm";
const PREFIX: &str = "berth-test-";
/// A run of all tests needs less than half of it.
const FREE_MIN: u64 = 4 << 30;

/// A directory in memory for temporary files. `None`: they go where this machine keeps them.
pub(super) fn directory() -> Option<TempDir> {
    let free = rustix::fs::statvfs(SHARED_MEMORY).ok().map(|it| it.f_bavail * it.f_frsize)?;
    if free < FREE_MIN || !is_tmpfs(Path::new(SHARED_MEMORY)) {
        return None;
    }
    remove_left_over();
    let prefix = format!("{PREFIX}{}-", std::process::id());
    let dir = tempfile::Builder::new().prefix(&prefix).tempdir_in(SHARED_MEMORY).ok()?;
    // PostgreSQL runs as another user below it.
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o1777)).ok()?;
    Some(dir)
}

/// A run that was killed leaves its directory, with its process in the name.
fn remove_left_over() {
    for entry in std::fs::read_dir(SHARED_MEMORY).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next());
        if process.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
            // Another user's stays.
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
