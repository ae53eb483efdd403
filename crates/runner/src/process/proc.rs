//! Reads `/proc`.

use std::fs;
use std::path::Path;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// A snapshot of a process. A process is identified by its pid and start time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProcessStat {
    pub(crate) pid: Pid,
    pub(crate) parent: i32,
    pub(crate) group: i32,
    /// Start time, in clock ticks since boot.
    pub(crate) start: u64,
    pub(crate) is_dead: bool,
}

impl ProcessStat {
    pub(crate) fn read(pid: Pid) -> Option<Self> {
        let text = fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
        parse_stat(pid, &text)
    }

    /// Sends a signal to the process, unless its pid has been reused.
    pub(crate) fn signal(&self, signal: Signal) {
        let Ok(handle) = pidfd_open(self.pid, PidfdFlags::empty()) else { return };
        if ProcessStat::read(self.pid).is_some_and(|now| now.start == self.start) {
            // Fails if the process has exited or belongs to another user. The next scan shows which.
            pidfd_send_signal(&handle, signal).ok();
        }
    }

    pub(crate) fn is_child_of(&self, parent: Pid) -> bool {
        self.parent == parent.as_raw_nonzero().get()
    }

    /// Whether the initial environment of the process contains an entry that starts with `entry`.
    pub(crate) fn has_environment_entry(&self, entry: &[u8]) -> bool {
        let Ok(text) = fs::read(format!("/proc/{}/environ", self.pid.as_raw_nonzero())) else { return false };
        text.split(|byte| *byte == 0).any(|found| found.starts_with(entry))
    }
}

/// Parses `/proc/PID/stat`. The program name is in parentheses and may contain any byte, so the other fields are parsed
/// after the last `)`.
fn parse_stat(pid: Pid, text: &[u8]) -> Option<ProcessStat> {
    let after = text.iter().rposition(|byte| *byte == b')')? + 1;
    let text = std::str::from_utf8(&text[after..]).ok()?;
    let fields: Vec<&str> = text.split_ascii_whitespace().collect();
    Some(ProcessStat {
        pid,
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        start: fields.get(19)?.parse().ok()?,
        is_dead: matches!(*fields.first()?, "Z" | "X" | "x"),
    })
}

pub(crate) fn list_processes() -> Vec<ProcessStat> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    numbers.filter_map(|number| ProcessStat::read(Pid::from_raw(number)?)).collect()
}

/// Returns the children of all threads of this process, or `None` if the kernel does not list them.
pub(crate) fn own_children() -> Option<Vec<i32>> {
    let mut found = Vec::new();
    for task in fs::read_dir("/proc/self/task").ok()?.flatten() {
        match read_children(&task.path()) {
            Some(children) => found.extend(children),
            // If the thread has just exited, its children have moved to another thread, so start again.
            None if task.path().exists() => return None,
            None => return own_children(),
        }
    }
    Some(found)
}

/// Returns the children of the main thread. These are orphans that the kernel reparented, because the runner starts its
/// processes only from other threads.
pub(crate) fn adopted_children() -> Vec<i32> {
    let own = std::process::id();
    read_children(Path::new(&format!("/proc/self/task/{own}"))).unwrap_or_default()
}

fn read_children(task: &Path) -> Option<Vec<i32>> {
    let text = fs::read_to_string(task.join("children")).ok()?;
    Some(text.split_ascii_whitespace().filter_map(|number| number.parse().ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_with_parentheses_in_program_name_is_parsed() {
        let pid = Pid::from_raw(7).expect("a number");
        let text = b"7 (a) R 9 9 (b) Z 3 5 5 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 12345 0 0\n";
        let seen = parse_stat(pid, text).expect("parsed");
        assert_eq!((seen.parent, seen.group, seen.start, seen.is_dead), (3, 5, 12345, true));
        assert_eq!(parse_stat(pid, b"7 (cut"), None);
    }

    #[test]
    fn list_processes_includes_own_process() {
        let own = rustix::process::getpid();
        let seen = ProcessStat::read(own).expect("myself");
        assert!(!seen.is_dead && list_processes().contains(&seen));
    }
}
