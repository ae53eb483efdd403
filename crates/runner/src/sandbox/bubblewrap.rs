//! With bubblewrap: PIDs and `/proc` of the step's own, the machine read-only, what is hidden covered.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{Cage, Level};
use crate::attempt::environment::PATH;

/// Capabilities are dropped: with them, root inside could undo every mount.
const COMMON: &[&str] = &[
    "--unshare-pid",
    "--unshare-ipc",
    "--unshare-uts",
    "--die-with-parent",
    "--new-session",
    "--cap-drop",
    "ALL",
    "--ro-bind",
    "/",
    "/",
    "--proc",
    "/proc",
    "--dev",
    "/dev",
];

/// Really runs something: whether user namespaces are allowed cannot be told otherwise.
pub(super) fn probe() -> Result<Level, String> {
    let found = PATH.split(':').map(|dir| Path::new(dir).join("bwrap")).find(|path| path.is_file());
    let path = found.ok_or("there is no program `bwrap`; install the package bubblewrap")?;
    let tried = Command::new(&path)
        .args(COMMON)
        .args(["--tmpfs", "/tmp", "--", "/bin/sh", "-c", "test -d /proc/self"])
        .env_clear()
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot run {}: {error}", path.display()))?;
    if tried.status.success() {
        Ok(Level::Bubblewrap(path))
    } else {
        Err(String::from_utf8_lossy(&tried.stderr).trim().to_owned())
    }
}

/// Later mounts cover earlier ones, so the order is: the machine, what is hidden, what is the step's own.
pub(super) fn arguments(cage: &Cage<'_>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = COMMON.iter().map(OsString::from).collect();
    let mut mount = |option: &str, paths: &[&Path]| {
        arguments.push(option.into());
        arguments.extend(paths.iter().map(|path| path.as_os_str().to_owned()));
    };
    mount("--bind", &[cage.tmp, Path::new("/tmp")]);
    for hidden in &cage.hidden {
        if hidden.is_dir() {
            mount("--tmpfs", &[hidden]);
        } else if hidden.exists() {
            mount("--ro-bind", &[Path::new("/dev/null"), hidden]);
        }
    }
    cage.own.iter().for_each(|own| mount("--bind", &[own, own]));
    cage.read.iter().for_each(|read| mount("--ro-bind", &[read, read]));
    arguments
}
