//! Creates a cgroup for each attempt, if the runner has permission to. Descendants stay in the cgroup even if they
//! start a new session and clear their environment. Without bubblewrap, there is no other way to find such daemons.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Pid, getpid, test_kill_process};

/// Parent directory of the attempts' cgroups. `None` if the runner cannot create cgroups.
static RUNNER_CGROUP: OnceLock<Option<PathBuf>> = OnceLock::new();
static NUMBER: AtomicU64 = AtomicU64::new(0);
/// Prefix of the name of a runner's cgroup directory. The runner's pid follows.
const PREFIX: &str = "berth-";

pub(super) struct AttemptCgroup {
    dir: PathBuf,
}

impl AttemptCgroup {
    /// Creates a cgroup and moves the process into it.
    pub(super) fn create_for(pid: Pid) -> Option<Self> {
        let own = RUNNER_CGROUP.get_or_init(|| match create_runner_cgroup() {
            Ok(dir) => Some(dir),
            Err(error) => {
                tracing::debug!(%error, "cgroups unavailable");
                None
            }
        });
        let dir = own.as_ref()?.join(NUMBER.fetch_add(1, Ordering::Relaxed).to_string());
        fs::create_dir(&dir).ok()?;
        let made = Self { dir };
        let joined = fs::write(made.dir.join("cgroup.procs"), pid.as_raw_nonzero().to_string());
        if let Err(error) = joined {
            tracing::warn!(%error, "cannot move step into its cgroup");
            return None;
        }
        Some(made)
    }

    /// Returns the pids in the cgroup.
    pub(super) fn members(&self) -> Vec<i32> {
        let text = fs::read_to_string(self.dir.join("cgroup.procs")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }
}

impl Drop for AttemptCgroup {
    fn drop(&mut self) {
        // Fails while the cgroup still contains a process. A later start of a runner then removes the directory.
        let _ = fs::remove_dir(&self.dir);
    }
}

/// Removes the empty cgroups of runners that no longer exist.
fn remove_left_over(base: &Path) {
    for runner in subdirectories(base).filter(|dir| is_of_dead_runner(dir)) {
        subdirectories(&runner).chain([runner.clone()]).for_each(|dir| drop(fs::remove_dir(dir)));
    }
}

fn is_of_dead_runner(dir: &Path) -> bool {
    let name = dir.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let number = name.strip_prefix(PREFIX).and_then(|number| number.parse().ok());
    number.and_then(Pid::from_raw).is_some_and(|pid| pid != getpid() && test_kill_process(pid).is_err())
}

fn subdirectories(dir: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path())
}

fn create_runner_cgroup() -> io::Result<PathBuf> {
    let base = own_cgroup_dir().ok_or_else(|| io::Error::other("cgroup v2 is not mounted"))?;
    remove_left_over(&base);
    let dir = base.join(format!("{PREFIX}{}", getpid().as_raw_nonzero()));
    match fs::create_dir(&dir) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(dir),
        other => other.map(|()| dir),
    }
}

/// Returns the directory of the runner's own cgroup (version 2).
fn own_cgroup_dir() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    locate_cgroup(&mounts, &own).filter(|dir| dir.join("cgroup.procs").exists())
}

/// Finds the directory, given the contents of `mountinfo` and `cgroup` in `/proc/self`.
fn locate_cgroup(mounts: &str, own: &str) -> Option<PathBuf> {
    let path = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    // In `mountinfo`, a dash marks the end of the optional fields, and the file system type follows.
    let mounted = mounts.lines().find(|line| line.contains(" - cgroup2 "))?;
    let mut fields = mounted.split(' ').skip(3);
    let (root, point) = (fields.next()?, fields.next()?);
    let below = Path::new(path).strip_prefix(root).ok()?;
    Some(Path::new(point).join(below))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_cgroup_is_located_below_mount_point() {
        let unified = "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate";
        let hybrid = "33 24 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n40 24 0:35 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw";
        let inside = "30 24 0:26 /box/1 /sys/fs/cgroup ro - cgroup2 cgroup rw";
        for (mounts, own, found) in [
            (unified, "0::/user.slice/app.scope\n", Some("/sys/fs/cgroup/user.slice/app.scope")),
            (unified, "0::/\n", Some("/sys/fs/cgroup/")),
            (hybrid, "9:cpu:/x\n0::/\n", Some("/sys/fs/cgroup/unified/")),
            (inside, "0::/box/1/berth\n", Some("/sys/fs/cgroup/berth")),
            (inside, "0::/other\n", None),
            ("", "0::/\n", None),
            (unified, "9:cpu:/x\n", None),
        ] {
            assert_eq!(locate_cgroup(mounts, own), found.map(PathBuf::from), "{mounts} {own}");
        }
    }
}
