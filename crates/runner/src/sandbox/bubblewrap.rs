//! Bubblewrap sandbox: separate namespaces, a read-only view of the system, and the step's own directories.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use berth_api::runner::Network;

use super::StepSandbox;
use super::user::StepUserAccount;
use super::visible::{VisiblePaths, VisibleSettings};
use crate::attempt::environment::PATH;

/// Arguments for every sandbox. Capabilities are dropped, because root inside the sandbox could otherwise undo the
/// mounts. Nested user namespaces are disabled, because they would restore the capabilities.
const COMMON: &[&str] = &[
    "--unshare-user",
    "--unshare-pid",
    "--unshare-ipc",
    "--unshare-uts",
    "--unshare-cgroup-try",
    "--disable-userns",
    "--die-with-parent",
    "--new-session",
    "--cap-drop",
    "ALL",
    "--proc",
    "/proc",
    "--dev",
    "/dev",
];
/// A network namespace with only a loopback interface.
const NO_NETWORK: &str = "--unshare-net";
/// Directories that programs expect to exist. They are empty in the sandbox.
const EMPTY: &[&str] = &["/home", "/root", "/run", "/var"];
const TEMPORARY: &[&str] = &["/tmp", "/var/tmp"];

/// Hint for operators: container engines forbid by default what bubblewrap needs.
const ALLOW_HINT: &str = "user namespaces have to be allowed for it, and a container needs an unmasked /proc \
    (podman run --security-opt unmask=ALL; Docker and Kubernetes: see docs/operations-packages.md)";

/// Starts a sandbox as a test, because there is no other way to find out whether user namespaces are allowed.
pub(super) fn probe(visible: &VisiblePaths, user: Option<&StepUserAccount>) -> Result<PathBuf, String> {
    let found = PATH.split(':').map(|dir| Path::new(dir).join("bwrap")).find(|path| path.is_file());
    let path = found.ok_or("there is no program `bwrap`: apt-get install bubblewrap")?;
    let mut command = Command::new(&path);
    if let Some(user) = user {
        user.run_as(&mut command);
    }
    let tried = command
        .current_dir("/")
        .args(base_arguments(visible))
        .args(expose_arguments(visible))
        .args(["--", "/bin/sh", "-c", "test -d /proc/self"])
        .env_clear()
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot run {}: {error}", path.display()))?;
    if tried.status.success() {
        return Ok(path);
    }
    let told = String::from_utf8_lossy(&tried.stderr).trim().to_owned();
    if told.contains("Unknown option") {
        return Err(format!("{} is older than 0.8: {told}", path.display()));
    }
    Err(format!("{told}; {ALLOW_HINT}"))
}

/// Returns the arguments for bubblewrap. Later mounts cover earlier ones, so the order is: system directories, hidden
/// paths, the step's own directories.
pub(super) fn arguments(sandbox: &StepSandbox<'_>) -> Vec<OsString> {
    let visible = &sandbox.confinement.visible;
    let mut arguments = base_arguments(visible);
    if sandbox.network == Network::None {
        arguments.push(NO_NETWORK.into());
    }
    TEMPORARY.iter().for_each(|path| push_mount(&mut arguments, "--bind", &[sandbox.tmp, Path::new(path)]));
    arguments.extend(expose_arguments(visible));
    for hidden in visible.covered_paths() {
        if hidden.is_dir() {
            push_mount(&mut arguments, "--tmpfs", &[hidden]);
        } else {
            push_mount(&mut arguments, "--ro-bind", &[Path::new("/dev/null"), hidden]);
        }
    }
    sandbox.writable.iter().for_each(|own| push_mount(&mut arguments, "--bind", &[own, own]));
    sandbox.readable.iter().for_each(|read| push_mount(&mut arguments, "--ro-bind", &[read, read]));
    push_mount(&mut arguments, "--remount-ro", &[Path::new("/")]);
    arguments
}

fn push_mount(arguments: &mut Vec<OsString>, option: &str, paths: &[&Path]) {
    arguments.push(option.into());
    arguments.extend(paths.iter().map(|path| path.as_os_str().to_owned()));
}

/// Returns the arguments for exposed paths. Such a path may be in a directory that the sandbox replaces, such as
/// `/run`, or may no longer exist.
fn expose_arguments(visible: &VisiblePaths) -> Vec<OsString> {
    let paths = visible.exposed.iter().map(|path| path.as_os_str().to_owned());
    paths.flat_map(|path| ["--ro-bind-try".into(), path.clone(), path]).collect()
}

fn base_arguments(visible: &VisiblePaths) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = COMMON.iter().map(OsString::from).collect();
    visible.dirs.iter().for_each(|dir| push_mount(&mut arguments, "--ro-bind", &[dir, dir]));
    let settings = VisibleSettings::find();
    settings.paths.iter().for_each(|path| push_mount(&mut arguments, "--ro-bind-try", &[path, path]));
    visible
        .links
        .iter()
        .chain(&settings.links)
        .for_each(|(link, target)| push_mount(&mut arguments, "--symlink", &[target, link]));
    EMPTY.iter().for_each(|dir| push_mount(&mut arguments, "--dir", &[Path::new(dir)]));
    arguments
}
