//! With Landlock: the kernel keeps the step from changing anything but its own directories, and from reading anything but
//! the system's and its own.
//!
//! Best effort, for the machine of one person: modes and owners of files can be changed, sockets with a path can be
//! connected to, and command lines of other processes can be read.
//!
//! The restriction is for a thread and whatever it starts, and cannot be undone: a fresh thread takes it on, starts
//! the process and ends.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus, Scope,
};

use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

use super::Cage;
use super::visible::VisibleSettings;

/// Files cannot be cut short (Linux 6.2). A kernel that knows less is refused.
const LEAST: ABI = ABI::V3;
/// The newest rights we know; a kernel that knows fewer keeps those it knows. From 6 on, signals and abstract sockets stay
/// inside; from 9 on, sockets with a path.
const KNOWN: ABI = ABI::V9;
/// Without capabilities, the kernel refuses a step the environment of processes outside of its domain.
const PROCESSES: &str = "/proc";
/// Written to by everything.
const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

pub(super) fn probe() -> Result<(), String> {
    let status = on_fresh_thread(|| {
        let all = AccessFs::from_all(KNOWN);
        restrict(&[(PathBuf::from("/"), all)])
    })
    .map_err(|error| format!("this kernel has no Landlock, or an older one than Linux 6.2: {error}"))?;
    match status {
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
        RulesetStatus::NotEnforced => Err("this kernel has no Landlock, or it is switched off".into()),
    }
}

pub(super) fn spawn(cage: &Cage<'_>, command: &mut Command) -> io::Result<Child> {
    let rules = rules(cage);
    on_fresh_thread(|| match restrict(&rules)? {
        RulesetStatus::NotEnforced => Err(io::Error::other("Landlock is not enforced any more")),
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => {
            // Another user has none anyway, and it takes them to become one.
            if cage.confinement.user.is_none() {
                drop_capabilities()?;
            }
            command.spawn()
        }
    })
}

/// As root, a process could read the environment of others with them. Landlock has seen to it that no program gives them
/// back.
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
        .handle_access(AccessFs::from_all(LEAST))
        .map(|ruleset| ruleset.set_compatibility(CompatLevel::BestEffort))
        .and_then(|ruleset| ruleset.handle_access(AccessFs::from_all(KNOWN)))
        .and_then(|ruleset| ruleset.scope(Scope::from_all(KNOWN)))
        .and_then(Ruleset::create)
        .map_err(io::Error::other)?;
    for (path, access) in rules {
        // What is not there needs no right.
        let Ok(opened) = PathFd::new(path) else { continue };
        let is_dir = path.is_dir();
        let access = if is_dir { *access } else { *access & AccessFs::from_file(KNOWN) };
        ruleset = ruleset.add_rule(PathBeneath::new(opened, access)).map_err(io::Error::other)?;
    }
    Ok(ruleset.restrict_self().map_err(io::Error::other)?.ruleset)
}

fn rules(cage: &Cage<'_>) -> Vec<(PathBuf, BitFlags<AccessFs>)> {
    let read = AccessFs::from_read(KNOWN);
    let visible = &cage.confinement.visible;
    let hidden: Vec<&Path> = visible.covered().collect();
    let settings = VisibleSettings::find().paths;
    let seen = visible.dirs.iter().chain(&settings).chain(&visible.exposed);
    let seen = seen.flat_map(|path| readable(path, &hidden));
    let mut rules: Vec<_> = seen.map(|path| (path, read)).collect();
    rules.push((PathBuf::from(PROCESSES), read));
    let connect = AccessFs::from_read(KNOWN) | AccessFs::ResolveUnix;
    rules.extend(visible.exposed.iter().map(|path| (path.clone(), connect)));
    rules.extend(DEVICES.iter().map(|device| (PathBuf::from(device), AccessFs::from_file(KNOWN))));
    rules.extend(cage.own.iter().map(|own| (PathBuf::from(own), AccessFs::from_all(KNOWN))));
    rules.extend(cage.read.iter().map(|path| (PathBuf::from(path), read)));
    rules
}

/// A right counts for everything below, and none can be taken back below: so the right to read is given beside the way
/// to what is hidden, not on it. A link gets none: where it leads, the right is there already, or must not be.
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
