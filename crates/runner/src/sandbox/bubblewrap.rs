//! With bubblewrap: namespaces of the step's own, and a file system that has the system read-only and the step's own
//! directories.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use berth_api::runner::Network;

use super::Cage;
use super::user::StepUser;
use super::visible::{Visible, VisibleSettings};
use crate::attempt::environment::PATH;

/// Capabilities are dropped: with them, root inside could undo every mount. No namespaces inside: they give them back.
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
/// With a loopback interface that is up.
const NO_NETWORK: &str = "--unshare-net";
/// Programs expect them; they are empty.
const EMPTY: &[&str] = &["/home", "/root", "/run", "/var"];
const TEMPORARY: &[&str] = &["/tmp", "/var/tmp"];

/// In a container, its engine forbids one or the other by default.
const ALLOW: &str = "user namespaces have to be allowed for it, and a container needs an unmasked /proc \
    (podman run --security-opt unmask=ALL; Docker and Kubernetes: see docs/operations-packages.md)";

/// Really runs something: whether user namespaces are allowed cannot be told otherwise.
pub(super) fn probe(visible: &Visible, user: Option<&StepUser>) -> Result<PathBuf, String> {
    let found = PATH.split(':').map(|dir| Path::new(dir).join("bwrap")).find(|path| path.is_file());
    let path = found.ok_or("there is no program `bwrap`: apt-get install bubblewrap")?;
    let mut command = Command::new(&path);
    if let Some(user) = user {
        user.run(&mut command);
    }
    let tried = command
        .current_dir("/")
        .args(machine(visible))
        .args(exposed(visible))
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
    Err(format!("{told}; {ALLOW}"))
}

/// Later mounts cover earlier ones, so the order is: the machine, what is hidden, what is the step's own.
pub(super) fn arguments(cage: &Cage<'_>) -> Vec<OsString> {
    let visible = &cage.confinement.visible;
    let mut arguments = machine(visible);
    if cage.network == Network::None {
        arguments.push(NO_NETWORK.into());
    }
    TEMPORARY.iter().for_each(|path| mount(&mut arguments, "--bind", &[cage.tmp, Path::new(path)]));
    arguments.extend(exposed(visible));
    for hidden in visible.covered() {
        if hidden.is_dir() {
            mount(&mut arguments, "--tmpfs", &[hidden]);
        } else {
            mount(&mut arguments, "--ro-bind", &[Path::new("/dev/null"), hidden]);
        }
    }
    cage.own.iter().for_each(|own| mount(&mut arguments, "--bind", &[own, own]));
    cage.read.iter().for_each(|read| mount(&mut arguments, "--ro-bind", &[read, read]));
    mount(&mut arguments, "--remount-ro", &[Path::new("/")]);
    arguments
}

fn mount(arguments: &mut Vec<OsString>, option: &str, paths: &[&Path]) {
    arguments.push(option.into());
    arguments.extend(paths.iter().map(|path| path.as_os_str().to_owned()));
}

/// What is exposed may lie in a directory that is the step's own otherwise, and it may be gone by now.
fn exposed(visible: &Visible) -> Vec<OsString> {
    let paths = visible.exposed.iter().map(|path| path.as_os_str().to_owned());
    paths.flat_map(|path| ["--ro-bind-try".into(), path.clone(), path]).collect()
}

fn machine(visible: &Visible) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = COMMON.iter().map(OsString::from).collect();
    visible.dirs.iter().for_each(|dir| mount(&mut arguments, "--ro-bind", &[dir, dir]));
    let settings = VisibleSettings::find();
    settings.paths.iter().for_each(|path| mount(&mut arguments, "--ro-bind-try", &[path, path]));
    visible
        .links
        .iter()
        .chain(&settings.links)
        .for_each(|(link, target)| mount(&mut arguments, "--symlink", &[target, link]));
    EMPTY.iter().for_each(|dir| mount(&mut arguments, "--dir", &[Path::new(dir)]));
    arguments
}
