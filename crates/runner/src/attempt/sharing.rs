//! Makes an attempt's files usable for the user of a container.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use berth_api::runner::ContainerAssignment;
use rustix::process::geteuid;

use super::dirs::AttemptDirs;

/// Lets a user of the container other than the runner's own use the mounted files. Users of the machine cannot reach
/// them, because the directories above are private.
pub(crate) fn open_to_container_user(
    dirs: &AttemptDirs,
    container: &ContainerAssignment,
) -> std::io::Result<()> {
    let is_root = container.user.as_deref().is_some_and(|user| matches!(user, "0" | "0:0" | "root"));
    if is_root && geteuid().is_root() {
        return Ok(());
    }
    let open = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode));
    open(&dirs.output, 0o666)?;
    open_tree(&dirs.workspace)?;
    for path in dirs.secret_files.get().into_iter().flat_map(|files| files.values()) {
        open(path, 0o444)?;
    }
    if dirs.has_secrets() { open(&dirs.secrets, 0o755) } else { Ok(()) }
}

/// Makes a checkout writable for everyone who can reach it. Does not follow symlinks.
fn open_tree(dir: &Path) -> std::io::Result<()> {
    let mut waiting = vec![dir.to_owned()];
    while let Some(dir) = waiting.pop() {
        std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o777))?;
        for entry in std::fs::read_dir(&dir)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                waiting.push(entry.path());
            } else if kind.is_file() {
                let mode = entry.metadata()?.permissions().mode();
                std::fs::set_permissions(entry.path(), std::fs::Permissions::from_mode(mode | 0o666))?;
            }
        }
    }
    Ok(())
}
