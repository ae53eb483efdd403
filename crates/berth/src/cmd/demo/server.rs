//! The demo's server: `berth serve` as a child process, so that it can be killed and restarted.

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

use super::supervisor::reachable_address;
use crate::cmd::serve;

/// The server promises to shut down within ten seconds.
const STOP_TIMEOUT: Duration = Duration::from_secs(12);

/// Command line and listener of the server process.
pub(super) struct ServerProcess {
    pub(super) program: std::path::PathBuf,
    /// The supervisor keeps the listener open too: the port stays reserved during a restart, and the next server
    /// process accepts the connections that queued up in the meantime.
    pub(super) listener: TcpListener,
    pub(super) args: Vec<String>,
}

impl ServerProcess {
    pub(super) fn new(
        args: &serve::ServeArgs,
        listener: TcpListener,
        dir: &Path,
        sites: &[(&str, &str)],
    ) -> anyhow::Result<Self> {
        let mut told = vec!["serve".to_owned()];
        let mut tell = |name: &str, value: String| told.extend([format!("--{name}"), value]);
        tell("kept-by", std::process::id().to_string());
        tell("data-dir", dir.display().to_string());
        tell("listen", listener.local_addr()?.to_string());
        // Allow the server to reach the sample repository and the webhook receivers, which are on this machine.
        tell("repository-root", dir.display().to_string());
        tell("egress-allow", reachable_address(listener.local_addr()?).ip().to_string());
        for (place, url) in sites {
            tell("site", format!("{place}={url}"));
        }
        for (name, value) in args.demo_server_flags() {
            tell(name, value);
        }
        if args.no_runner {
            told.push("--no-runner".to_owned());
        }
        let program = std::env::current_exe().context("cannot find the path of this program")?;
        Ok(Self { program, listener, args: told })
    }

    pub(super) fn start(&self) -> anyhow::Result<Child> {
        let listener = OwnedFd::from(self.listener.try_clone()?);
        Command::new(&self.program)
            .args(&self.args)
            .stdin(Stdio::from(listener))
            .stdout(Stdio::null())
            // In its own process group the server does not receive Ctrl-C; the supervisor does, and stops the server.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {}", self.program.display()))
    }
}

/// Sends SIGTERM, and SIGKILL after a timeout.
pub(super) async fn stop_server(mut server: Child) -> anyhow::Result<ExitStatus> {
    if let Some(pid) = server.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw) {
        let _ = kill_process(pid, Signal::TERM);
    }
    if let Ok(ended) = tokio::time::timeout(STOP_TIMEOUT, server.wait()).await {
        return Ok(ended?);
    }
    server.kill().await.context("cannot stop the server")?;
    anyhow::bail!("the server did not stop within {} s and was killed", STOP_TIMEOUT.as_secs())
}
