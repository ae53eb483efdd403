//! Sets up the machine around a server for sandbox tests: a socket in `/run`, and mounts that only the server sees.

use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use berth_testkit::outcome;

/// A socket in `/run` that accepts connections, or in `/tmp` if the user cannot write to `/run`. Its file is removed on
/// drop.
pub(crate) struct RunSocket {
    listener: UnixListener,
    pub(crate) path: PathBuf,
}

impl RunSocket {
    pub(crate) fn listen() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("berth-test-{}-{}.sock", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let user = format!("/run/user/{}", rustix::process::geteuid().as_raw());
        let candidates = ["/run", user.as_str(), "/tmp"].map(|dir| Path::new(dir).join(&name));
        let bound = candidates.into_iter().find_map(|path| Some((UnixListener::bind(&path).ok()?, path)));
        let (listener, path) = bound.expect("a writable directory");
        listener.set_nonblocking(true).expect("nonblocking");
        let socket = Self { listener, path };
        UnixStream::connect(&socket.path).expect("reachable outside of the sandbox");
        assert!(socket.has_connection());
        socket
    }

    pub(crate) fn has_connection(&self) -> bool {
        self.listener.accept().is_ok()
    }
}

impl Drop for RunSocket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Returns whether Landlock restricts signals, which it does from Linux 6.12 on. On older kernels a step can signal any
/// process of its user.
pub(crate) fn has_signal_scope() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("kernel release");
    let mut numbers =
        release.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse::<u32>().unwrap_or(0));
    let has_scope = (numbers.next(), numbers.next()) >= (Some(6), Some(12));
    if !has_scope {
        outcome::report_impossible("Landlock's signal scope", release.trim());
    }
    has_scope
}

/// Returns whether the runner can use cgroups, which it needs to find a step's daemons without bubblewrap. Only root
/// can create them.
pub(crate) fn has_cgroups() -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let has_cgroups = mounts.contains(" - cgroup2 ") && rustix::process::geteuid().is_root();
    if !has_cgroups {
        outcome::report_impossible("cgroup v2", "it is not mounted, or this is not root");
    }
    has_cgroups
}

/// Wraps `command` so that it runs in a new mount namespace, after the shell script `setup`, and keeps its process id.
/// Returns `None` if mounts are not allowed here.
pub(crate) fn in_mount_namespace(command: &Command, setup: &str) -> Option<Command> {
    let unshare = |then: &str| {
        let mut unshare = Command::new("unshare");
        unshare.args(["--mount", "sh", "-e", "-c", &format!("{setup}\n{then}")]);
        unshare
    };
    let tried = unshare("exit 0").output().expect("unshare");
    if !tried.status.success() {
        outcome::report_impossible("mounts of its own", String::from_utf8_lossy(&tried.stderr).trim());
        return None;
    }
    let mut inside = unshare(r#"exec "$0" "$@""#);
    inside.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => inside.env(name, value),
            None => inside.env_remove(name),
        };
    }
    Some(inside)
}

/// Runs a shell script in the mount namespace of the process `id`.
pub(crate) fn run_in_namespace_of(id: u32, script: &str) {
    let mut nsenter = Command::new("nsenter");
    nsenter.args(["--target", &id.to_string(), "--mount", "sh", "-e", "-c", script]);
    let ran = nsenter.output().expect("nsenter");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}
