//! The unprivileged user that steps run as, if the runner is root.

use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, lchown};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::geteuid;

const USERS: &str = "/etc/passwd";
/// Mode of a directory that the step user can traverse but not list.
const TRAVERSE_ONLY: u32 = 0o710;
/// Permissions of the owner (read and execute) that are copied to the group.
const OWNER_READS: u32 = 0o500;

/// An unprivileged user account on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepUserAccount {
    name: String,
    uid: u32,
    gid: u32,
}

/// Why steps cannot run as the configured user.
#[derive(Debug, thiserror::Error)]
pub enum StepUserError {
    #[error("steps can run as the user {0} only if this program runs as root")]
    NotRoot(String),
    #[error("there is no user {0} in {USERS}: create it with `useradd --system --no-create-home {0}`")]
    Unknown(String),
    #[error("steps cannot run as {0}, which is root: name an unprivileged user")]
    Root(String),
    #[error("{USERS} cannot be read: {0}")]
    Unreadable(io::Error),
    #[error(
        "the user {user}, as which steps run, cannot enter {dir} ({source}): choose a work directory below one that all \
         users can enter, such as /var/lib/berth-work"
    )]
    Outside { user: String, dir: String, source: io::Error },
}

impl StepUserAccount {
    /// Finds a user on this machine by name.
    pub fn find(name: &str) -> Result<Self, StepUserError> {
        if !geteuid().is_root() {
            return Err(StepUserError::NotRoot(name.to_owned()));
        }
        let users = std::fs::read_to_string(USERS).map_err(StepUserError::Unreadable)?;
        let user = find_in_passwd(&users, name).ok_or_else(|| StepUserError::Unknown(name.to_owned()))?;
        if user.uid == 0 || user.gid == 0 {
            return Err(StepUserError::Root(name.to_owned()));
        }
        Ok(user)
    }

    pub(crate) fn uid(&self) -> u32 {
        self.uid
    }

    /// Makes the command run as the user. The standard library also drops root's supplementary groups.
    pub(super) fn run_as(&self, command: &mut Command) {
        command.uid(self.uid).gid(self.gid);
    }

    /// Makes the user the owner of everything at `path`. For a symlink, changes the symlink itself, not its target.
    pub(super) fn take_ownership(&self, path: &Path) -> io::Result<()> {
        walk(path, &|path, _| lchown(path, Some(self.uid), Some(self.gid)))
    }

    /// Lets the user read everything at `path`, without changing its owner.
    pub(super) fn allow_read(&self, path: &Path) -> io::Result<()> {
        walk(path, &|path, found| {
            lchown(path, None, Some(self.gid))?;
            if found.is_symlink() {
                return Ok(());
            }
            let mode = found.mode() & 0o777;
            set_mode(path, (mode & !0o027) | ((mode & OWNER_READS) >> 3))
        })
    }

    /// Lets the user traverse a directory.
    pub(super) fn allow_traverse(&self, dir: &Path) -> io::Result<()> {
        lchown(dir, None, Some(self.gid))?;
        set_mode(dir, TRAVERSE_ONLY)
    }

    /// Tries to enter the directory as the user, because the permissions of all its parents matter.
    pub(super) fn check_can_enter(&self, dir: &Path) -> Result<(), StepUserError> {
        let mut command = Command::new("/bin/true");
        self.run_as(&mut command);
        command.current_dir(dir).env_clear().stdin(Stdio::null());
        let entered = command.status();
        entered.map(drop).map_err(|source| StepUserError::Outside {
            user: self.name.clone(),
            dir: dir.display().to_string(),
            source,
        })
    }
}

fn find_in_passwd(users: &str, name: &str) -> Option<StepUserAccount> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let found = fields.next().filter(|found| *found == name)?;
        let (uid, gid) = (fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
        Some(StepUserAccount { name: found.to_owned(), uid, gid })
    })
}

fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
}

/// Visits everything at and below `path`, without following symlinks.
fn walk(path: &Path, change: &dyn Fn(&Path, &std::fs::Metadata) -> io::Result<()>) -> io::Result<()> {
    let mut waiting = vec![path.to_owned()];
    while let Some(path) = waiting.pop() {
        let found = path.symlink_metadata()?;
        if found.is_dir() {
            for entry in std::fs::read_dir(&path)? {
                waiting.push(entry?.path());
            }
        }
        change(&path, &found)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_is_found_by_full_name() {
        let users =
            "root:x:0:0:root:/root:/bin/sh\nberth-steps:x:990:991::/:/bin/false\nberth:x:7:8::/:/x\ncut:x\n";
        let found = |name| find_in_passwd(users, name).map(|user| (user.uid, user.gid));
        assert_eq!(found("berth"), Some((7, 8)));
        assert_eq!(found("berth-steps"), Some((990, 991)));
        assert_eq!((found("steps"), found("cut"), found("")), (None, None, None));
    }
}
