//! A server in a separate process, killed on drop.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use rustix::process::{Pid, Signal, kill_process};

pub(crate) struct BenchServer {
    pub(crate) child: Child,
}

impl BenchServer {
    /// Starts the server, with its standard output piped to this process.
    pub(crate) fn start(command: &mut Command) -> anyhow::Result<Self> {
        let started = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let program = command.get_program().to_string_lossy().into_owned();
        Ok(Self { child: started.with_context(|| format!("cannot start {program}"))? })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for BenchServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns an unused address, for servers that cannot pick a free port themselves.
pub(crate) fn free_address() -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot listen on loopback")?;
    Ok(listener.local_addr()?)
}

/// Returns the user and system CPU time that a process has used so far.
pub(crate) fn cpu_time(process: u32) -> anyhow::Result<Duration> {
    let path = format!("/proc/{process}/stat");
    let stat = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    parse_ticks(&stat)
        .map(|ticks| Duration::from_millis(10 * ticks))
        .with_context(|| format!("{path}: {stat}"))
}

/// Peak memory of a process, in bytes.
pub(crate) fn peak_memory(process: u32) -> anyhow::Result<u64> {
    read_status_bytes(process, "VmHWM:")
}

/// Resident memory of a process, in bytes.
pub(crate) fn resident_memory(process: u32) -> anyhow::Result<u64> {
    read_status_bytes(process, "VmRSS:")
}

/// The part of the resident memory that is not mapped from files, such as the program itself, in bytes.
pub(crate) fn anonymous_memory(process: u32) -> anyhow::Result<u64> {
    read_status_bytes(process, "RssAnon:")
}

fn read_status_bytes(process: u32, what: &str) -> anyhow::Result<u64> {
    let path = format!("/proc/{process}/status");
    let status = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(what));
    let line = line.with_context(|| format!("no {what}"))?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? * 1024)
}

/// Sends SIGTERM and waits for a clean exit.
pub(crate) fn stop_server(server: &mut BenchServer) -> anyhow::Result<()> {
    kill_process(Pid::from_child(&server.child), Signal::TERM)?;
    let status = server.child.wait()?;
    ensure!(status.success(), "the server did not exit cleanly: {status}");
    Ok(())
}

/// Resets the peak memory counter.
pub(crate) fn reset_peak_memory(process: u32) -> anyhow::Result<()> {
    const PEAK: &str = "5";
    let path = format!("/proc/{process}/clear_refs");
    std::fs::write(&path, PEAK).with_context(|| format!("cannot write {path}"))
}

/// Parses the CPU time from `/proc/PID/stat`, in ticks. A tick is 10 ms on Linux.
fn parse_ticks(stat: &str) -> Option<u64> {
    // Start after the second field, the program's name, which may contain spaces and parentheses.
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut times = rest.split(' ').skip(11).map(str::parse::<u64>);
    Some(times.next()?.ok()? + times.next()?.ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_parsed_after_program_name() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 4 0 100 0 0";
        assert_eq!(parse_ticks(stat), Some(300));
        assert!(cpu_time(std::process::id()).is_ok());
    }

    #[test]
    fn peak_memory_of_own_process_is_read() {
        assert!(peak_memory(std::process::id()).unwrap() > 64 * 1024);
    }
}
