//! Landlock sandbox: the kernel restricts a step's writes to the step's own directories, and its reads to these and to
//! system directories.
//!
//! This is best effort, for a single-user machine. Steps can still change modes and owners of files, connect to Unix
//! sockets by path, and read the command lines of other processes.
//!
//! A restriction applies to a thread and its descendants and cannot be undone. A new thread therefore restricts itself,
//! starts the process and ends.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus, Scope,
};

use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

use super::StepSandbox;
use super::visible::VisibleSettings;

/// Oldest supported ABI, the first that controls truncation (Linux 6.2). Older kernels are rejected.
const ABI_MIN: ABI = ABI::V3;
/// Newest supported ABI. Older kernels enforce only the part that they know: signals and abstract sockets are
/// restricted from ABI 6 on, and Unix sockets with a path from ABI 9 on.
const ABI_MAX: ABI = ABI::V9;
/// Steps may read `/proc`. The kernel denies a process without capabilities access to the environment of processes
/// outside of its Landlock domain.
const PROCESSES: &str = "/proc";
/// Devices that programs expect to be writable.
const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

pub(super) fn probe() -> Result<(), String> {
    let status = on_fresh_thread(|| {
        let all = AccessFs::from_all(ABI_MAX);
        restrict(&[(PathBuf::from("/"), all)])
    })
    .map_err(|error| format!("this kernel has no Landlock, or an older one than Linux 6.2: {error}"))?;
    match status {
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
        RulesetStatus::NotEnforced => Err("this kernel has no Landlock, or it is switched off".into()),
    }
}

pub(super) fn spawn(sandbox: &StepSandbox<'_>, command: &mut Command) -> io::Result<Child> {
    let rules = rules(sandbox);
    on_fresh_thread(|| match restrict(&rules)? {
        RulesetStatus::NotEnforced => Err(io::Error::other("Landlock is not enforced any more")),
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => {
            // Changing to the step user requires capabilities. A step user has none after the change, so they only need
            // to be dropped here if there is no step user.
            if sandbox.confinement.user.is_none() {
                drop_capabilities()?;
            }
            command.spawn()
        }
    })
}

/// Drops all capabilities, because a root process could use them to read the environment of other processes. Landlock
/// sets no_new_privs, so no program can regain them.
fn drop_capabilities() -> io::Result<()> {
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    Ok(set_capabilities(None, sets)?)
}

fn on_fresh_thread<T: Send>(run: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("step-start".into()).spawn_scoped(scope, run)?;
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread that starts a step has panicked")))
    })
}

fn restrict(rules: &[(PathBuf, BitFlags<AccessFs>)]) -> io::Result<RulesetStatus> {
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI_MIN))
        .map(|ruleset| ruleset.set_compatibility(CompatLevel::BestEffort))
        .and_then(|ruleset| ruleset.handle_access(AccessFs::from_all(ABI_MAX)))
        .and_then(|ruleset| ruleset.scope(Scope::from_all(ABI_MAX)))
        .and_then(Ruleset::create)
        .map_err(io::Error::other)?;
    for (path, access) in rules {
        // A path that does not exist needs no rule.
        let Ok(opened) = PathFd::new(path) else { continue };
        let is_dir = path.is_dir();
        let access = if is_dir { *access } else { *access & AccessFs::from_file(ABI_MAX) };
        ruleset = ruleset.add_rule(PathBeneath::new(opened, access)).map_err(io::Error::other)?;
    }
    Ok(ruleset.restrict_self().map_err(io::Error::other)?.ruleset)
}

fn rules(sandbox: &StepSandbox<'_>) -> Vec<(PathBuf, BitFlags<AccessFs>)> {
    let read = AccessFs::from_read(ABI_MAX);
    let visible = &sandbox.confinement.visible;
    let hidden: Vec<&Path> = visible.covered_paths().collect();
    let settings = VisibleSettings::find().paths;
    let seen = visible.dirs.iter().chain(&settings).chain(&visible.exposed);
    let seen = seen.flat_map(|path| readable(path, &hidden));
    let mut rules: Vec<_> = seen.map(|path| (path, read)).collect();
    rules.push((PathBuf::from(PROCESSES), read));
    let connect = AccessFs::from_read(ABI_MAX) | AccessFs::ResolveUnix;
    rules.extend(visible.exposed.iter().map(|path| (path.clone(), connect)));
    rules.extend(DEVICES.iter().map(|device| (PathBuf::from(device), AccessFs::from_file(ABI_MAX))));
    rules.extend(sandbox.writable.iter().map(|own| (PathBuf::from(own), AccessFs::from_all(ABI_MAX))));
    rules.extend(sandbox.readable.iter().map(|path| (PathBuf::from(path), read)));
    rules
}

/// Returns the readable paths in `dir`. A Landlock rule applies to a whole subtree and cannot be revoked for a part of
/// it, so a directory that contains a hidden path is replaced by its other entries. Symlinks get no rule, because their
/// target either has one already or must not be readable.
fn readable(dir: &Path, hidden: &[&Path]) -> Vec<PathBuf> {
    if hidden.contains(&dir) {
        return Vec::new();
    }
    if !hidden.iter().any(|path| path.starts_with(dir)) {
        return vec![dir.to_owned()];
    }
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let real = entries.filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_symlink()));
    real.flat_map(|entry| readable(&entry.path(), hidden)).collect()
}
