//! Puts the tests' temporary files into memory if there is enough of it, because disk I/O would cost minutes.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::TempDir;

const SHARED_MEMORY: &str = "/dev/shm";
const PREFIX: &str = "berth-test-";
/// Required free memory in bytes; more than twice what a run of all tests needs.
const FREE_MIN: u64 = 4 << 30;

/// Creates a directory in memory. Returns `None` if temporary files should stay on disk.
pub(super) fn create_directory() -> Option<TempDir> {
    let free = rustix::fs::statvfs(SHARED_MEMORY).ok().map(|it| it.f_bavail * it.f_frsize)?;
    if free < FREE_MIN || !is_tmpfs(Path::new(SHARED_MEMORY)) {
        return None;
    }
    remove_left_over();
    let prefix = format!("{PREFIX}{}-", std::process::id());
    let dir = tempfile::Builder::new().prefix(&prefix).tempdir_in(SHARED_MEMORY).ok()?;
    // Make it accessible to other users, because PostgreSQL runs as one.
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o1777)).ok()?;
    Some(dir)
}

/// Removes directories left behind by killed runs. Their names contain the process id.
fn remove_left_over() {
    for entry in std::fs::read_dir(SHARED_MEMORY).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next());
        if process.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
            // Ignore errors: directories of other users cannot be removed.
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
