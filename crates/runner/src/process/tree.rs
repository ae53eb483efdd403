//! Finds all processes of one attempt, including those that have left its process group.
//!
//! A process belongs to an attempt if it is in the attempt's cgroup or process group, if its environment contains the
//! attempt's id, or if it descends from such a process. The runner is a subreaper, so orphans become its children. An
//! orphan with a process group of its own and without an attempt id belongs to an attempt if no other attempt was
//! running when the orphan started.

use std::cell::Cell;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, getpgrp, getpid, kill_process_group,
    set_child_subreaper, waitid, waitpid,
};

use super::cgroup::AttemptCgroup;
use super::proc::{ProcessStat, adopted_children, list_processes, own_children};

/// Main processes of all attempts. Global, because orphans are reparented to the whole process and could belong to any
/// attempt. Locked while a process is being started.
static MAINS: Mutex<Vec<MainProcess>> = Mutex::new(Vec::new());

/// Whether orphaned processes are reparented to this process.
static IS_SUBREAPER: AtomicBool = AtomicBool::new(false);

/// Pause between two scans for remaining processes.
const SCAN_INTERVAL: Duration = Duration::from_millis(2);
/// Number of scans after which a warning is logged.
const SCANS_BEFORE_WARNING: usize = 2_000;

#[derive(Clone, Copy, PartialEq, Eq)]
struct MainProcess {
    pid: Pid,
    start: u64,
}

/// The processes of one attempt that were started by one main process.
pub(crate) struct ProcessTree {
    main: MainProcess,
    /// The environment entry `BERTH_ATTEMPT_ID=…`.
    mark: Vec<u8>,
    cgroup: Option<AttemptCgroup>,
    /// Set once it was verified that no process is left.
    is_over: Cell<bool>,
}

/// Makes this process a subreaper, so that orphaned processes of steps can be found. If that fails, they are found by
/// scanning `/proc` for attempt ids.
pub(crate) fn become_subreaper() {
    match set_child_subreaper(Some(getpid())) {
        Ok(()) => IS_SUBREAPER.store(true, Ordering::Relaxed),
        Err(error) => tracing::warn!(%error, "cannot become subreaper"),
    }
}

pub(crate) fn attempt_id_entry(attempt: &str) -> Vec<u8> {
    format!("BERTH_ATTEMPT_ID={attempt}").into_bytes()
}

impl ProcessTree {
    /// Starts the main process and registers it before another attempt could mistake it for an orphan. If
    /// `keeps_together` is set, the main process is a sandbox wrapper with a PID namespace, which needs no cgroup.
    pub(crate) fn start(
        mark: Vec<u8>,
        keeps_together: bool,
        spawn: impl FnOnce() -> std::io::Result<std::process::Child>,
    ) -> std::io::Result<(Self, std::process::Child)> {
        let mut mains = MAINS.lock();
        let child = spawn()?;
        let pid = Pid::from_child(&child);
        let start = ProcessStat::read(pid).map_or(0, |seen| seen.start);
        let main = MainProcess { pid, start };
        mains.push(main);
        let cgroup = if keeps_together { None } else { AttemptCgroup::create_for(pid) };
        Ok((Self { main, mark, cgroup, is_over: Cell::new(false) }, child))
    }

    pub(crate) fn pid(&self) -> Pid {
        self.main.pid
    }

    /// Returns all living processes of the attempt, including the main process.
    pub(crate) fn members(&self) -> Vec<ProcessStat> {
        let mains = MAINS.lock();
        let own = getpid().as_raw_nonzero().get();
        let own_group = getpgrp().as_raw_nonzero().get();
        let group = self.main.pid.as_raw_nonzero().get();
        let is_main = |seen: &ProcessStat| mains.iter().any(|main| main.pid == seen.pid);
        let everything = list_processes();
        let adopted: HashSet<i32> = adopted_children().into_iter().collect();
        // Processes that are older than the main process cannot belong to the attempt.
        let young: Vec<ProcessStat> =
            everything.into_iter().filter(|seen| seen.start >= self.main.start).collect();
        let is_orphan = |seen: &ProcessStat| {
            let number = seen.pid.as_raw_nonzero().get();
            seen.parent == own && adopted.contains(&number) && seen.group != own_group && !is_main(seen)
        };
        for seen in young.iter().filter(|seen| seen.is_dead) {
            if seen.parent == own && !is_main(seen) && (seen.group == group || is_orphan(seen)) {
                waitpid(Some(seen.pid), WaitOptions::NOHANG).ok();
            }
        }
        let others: Vec<MainProcess> = mains.iter().copied().filter(|main| *main != self.main).collect();
        let is_unclaimed = |seen: &ProcessStat| {
            !others.iter().any(|main| main.start <= seen.start)
                && !seen.has_environment_entry(b"BERTH_ATTEMPT_ID=")
        };
        let alive: Vec<ProcessStat> = young
            .into_iter()
            .filter(|seen| !seen.is_dead && seen.pid.as_raw_nonzero().get() != own)
            .collect();
        let within: HashSet<i32> = self.cgroup.iter().flat_map(AttemptCgroup::members).collect();
        let belongs = |seen: &ProcessStat| {
            within.contains(&seen.pid.as_raw_nonzero().get())
                || seen.group == group
                || seen.pid == self.main.pid
                || (!(is_main(seen) && seen.pid != self.main.pid) && seen.has_environment_entry(&self.mark))
                || (is_orphan(seen) && is_unclaimed(seen))
        };
        let (mut members, mut rest): (Vec<ProcessStat>, Vec<ProcessStat>) =
            alive.into_iter().partition(belongs);
        loop {
            let parents: HashSet<i32> = members.iter().map(|seen| seen.pid.as_raw_nonzero().get()).collect();
            let (more, others): (Vec<ProcessStat>, Vec<ProcessStat>) =
                rest.into_iter().partition(|seen| parents.contains(&seen.parent));
            if more.is_empty() {
                return members;
            }
            members.extend(more);
            rest = others;
        }
    }

    /// Fast check after the main process was reaped. Any surviving process of the attempt is now a child of the runner,
    /// or descends from one.
    fn is_certainly_empty(&self) -> bool {
        let has_members = self.cgroup.as_ref().is_some_and(|cgroup| !cgroup.members().is_empty());
        if has_members || !IS_SUBREAPER.load(Ordering::Relaxed) {
            return false;
        }
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        if matches!(waitid(WaitId::All, options), Err(Errno::CHILD)) {
            return true;
        }
        let mains = MAINS.lock();
        let Some(children) = own_children() else { return false };
        let is_known = |number: &i32| mains.iter().any(|main| main.pid.as_raw_nonzero().get() == *number);
        children.iter().all(is_known)
    }

    /// Kills the remaining processes after the main process was reaped.
    pub(crate) fn kill_remaining(&self) {
        if !self.is_certainly_empty() {
            self.kill();
        }
        self.is_over.set(true);
    }

    /// Kills every process of the attempt. Returns when none is left.
    pub(crate) fn kill(&self) {
        let mut looks = 0_usize;
        loop {
            let members = self.members();
            if members.is_empty() {
                return;
            }
            // Kill the whole group at once, because its processes could otherwise fork faster than they are killed. The
            // group id stays valid while the group has a member.
            let group = self.main.pid;
            if members.iter().any(|seen| seen.group == group.as_raw_nonzero().get()) {
                kill_process_group(group, Signal::KILL).ok();
            }
            for seen in &members {
                seen.signal(Signal::KILL);
            }
            looks += 1;
            if looks == SCANS_BEFORE_WARNING {
                tracing::warn!(left = members.len(), "step processes survive SIGKILL; retrying");
            }
            std::thread::sleep(SCAN_INTERVAL);
        }
    }
}

impl Drop for ProcessTree {
    fn drop(&mut self) {
        // This also runs after a panic.
        if !self.is_over.get() {
            self.kill();
            waitpid(Some(self.main.pid), WaitOptions::empty()).ok();
        }
        MAINS.lock().retain(|main| *main != self.main);
    }
}

/// Kills all processes whose environment contains an entry that starts with `entry`, and their descendants. Returns the
/// number of killed processes.
pub(crate) fn kill_by_environment(entry: &[u8]) -> usize {
    let own = getpid();
    let mut killed = HashSet::new();
    loop {
        let everything = list_processes();
        let alive = everything.into_iter().filter(|seen| !seen.is_dead && seen.pid != own);
        let (mut found, mut rest): (Vec<ProcessStat>, Vec<ProcessStat>) =
            alive.partition(|seen| seen.has_environment_entry(entry));
        let mut parents: HashSet<i32> = found.iter().map(|seen| seen.pid.as_raw_nonzero().get()).collect();
        loop {
            let (more, others): (Vec<ProcessStat>, Vec<ProcessStat>) =
                rest.into_iter().partition(|seen| parents.contains(&seen.parent));
            if more.is_empty() {
                break;
            }
            parents = more.iter().map(|seen| seen.pid.as_raw_nonzero().get()).collect();
            found.extend(more);
            rest = others;
        }
        if found.is_empty() {
            return killed.len();
        }
        for seen in found {
            seen.signal(Signal::KILL);
            killed.insert((seen.pid, seen.start));
        }
        std::thread::sleep(SCAN_INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn orphans_are_found_without_subreaper() {
        let mark = attempt_id_entry(&format!("test-{}", std::process::id()));
        let mut command = Command::new("sh");
        // The background shell prints `ready` and stops itself, so it is still the same process with the same
        // environment.
        command.args(["-c", "setsid sh -c 'echo ready; kill -STOP $$' &"]).stdout(Stdio::piped());
        command.env("BERTH_ATTEMPT_ID", format!("test-{}", std::process::id()));
        let (tree, mut child) = ProcessTree::start(mark.clone(), false, || command.spawn()).expect("started");
        child.wait().expect("ended");
        let mut said = [0; 6];
        child.stdout.take().expect("output").read_exact(&mut said).expect("ready");
        let left = || {
            list_processes()
                .into_iter()
                .filter(|seen| !seen.is_dead && seen.has_environment_entry(&mark))
                .count()
        };
        assert_eq!(left(), 1, "it has left the group and its parent");
        tree.kill_remaining();
        assert_eq!(left(), 0);
    }
}
