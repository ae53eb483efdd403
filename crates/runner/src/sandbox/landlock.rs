//! With Landlock: the kernel keeps the step from writing outside of its own directory and from reading what is hidden.
//!
//! The restriction is for a thread and whatever it starts, and cannot be undone: a fresh thread takes it on, starts
//! the process and ends.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use landlock::{
    ABI, Access, AccessFs, BitFlags, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetStatus,
};

use super::{Cage, Level};

/// The newest rights we know; a kernel that knows fewer keeps those it knows.
const KNOWN: ABI = ABI::V5;
/// Written to by everything.
const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

pub(super) fn probe() -> Result<Level, String> {
    let status = on_fresh_thread(|| {
        let all = AccessFs::from_all(KNOWN);
        restrict(&[(PathBuf::from("/"), all)])
    })
    .map_err(|error| error.to_string())?;
    match status {
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(Level::Landlock),
        RulesetStatus::NotEnforced => Err("this kernel has no Landlock, or it is switched off".into()),
    }
}

pub(super) fn spawn(cage: &Cage<'_>, command: &mut Command) -> io::Result<Child> {
    let rules = rules(cage);
    on_fresh_thread(|| match restrict(&rules)? {
        RulesetStatus::NotEnforced => Err(io::Error::other("Landlock is not enforced any more")),
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => command.spawn(),
    })
}

fn on_fresh_thread<T: Send>(run: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("step-start".into()).spawn_scoped(scope, run)?;
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread that starts a step has panicked")))
    })
}

fn restrict(rules: &[(PathBuf, BitFlags<AccessFs>)]) -> io::Result<RulesetStatus> {
    let mut ruleset = Ruleset::default()
        .handle_access(AccessFs::from_all(KNOWN))
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
    let readable = readable(Path::new("/"), &cage.hidden);
    let mut rules: Vec<_> = readable.into_iter().map(|path| (path, read)).collect();
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
