//! A PostgreSQL server in a temporary directory.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::BIN_VARIABLE;

const START_MAX: Duration = Duration::from_secs(120);
const STOP_MAX: Duration = Duration::from_secs(30);
const START_PAUSE: Duration = Duration::from_millis(10);
const PACKAGES: &str = "/usr/lib/postgresql";
/// Preferred place for the server's files: fsync is cheap in memory, so tests need not disable it.
const MEMORY_DIR: &str = "/dev/shm";
const MEMORY_BYTES_MIN: u64 = 4 * 1024 * 1024 * 1024;

/// Returns the directory of the newest PostgreSQL server programs on this machine.
pub fn postgres_binaries() -> Option<PathBuf> {
    if let Some(given) = std::env::var_os(BIN_VARIABLE) {
        return Some(given.into());
    }
    let versions = std::fs::read_dir(PACKAGES).ok()?;
    let mut found: Vec<_> = versions.flatten().map(|entry| entry.path().join("bin")).collect();
    found.sort();
    found.into_iter().rev().find(|bin| bin.join("initdb").exists())
}

/// A server on a Unix socket, run as an unprivileged user and stopped on drop.
pub struct PostgresServer {
    child: Option<Child>,
    bin: PathBuf,
    dir: tempfile::TempDir,
}

impl PostgresServer {
    pub fn start(bin: &Path) -> Result<Self, String> {
        Self::start_in(bin, &parent_dir())
    }

    /// Starts a server with its files in the given directory; used by benchmarks.
    pub fn start_in(bin: &Path, place: &Path) -> Result<Self, String> {
        let dir = tempfile::Builder::new().prefix("berth-pg-").tempdir_in(place);
        let dir = dir.map_err(|error| format!("no directory for it: {error}"))?;
        let mut server = Self { child: None, bin: bin.to_owned(), dir };
        if is_root() {
            // PostgreSQL refuses to run as root; Debian's package creates a user for it.
            run_command(Command::new("chown").arg("postgres").arg(server.dir.path()))?;
        }
        let words = ["--auth=trust", "--username=berth", "--no-sync", "--encoding=UTF8", "--locale=C", "-D"];
        run_command(server.command("initdb").args(words).arg(server.data_dir()))?;
        server.restart()?;
        Ok(server)
    }

    /// Kills the server to simulate a crash.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let id = child.id();
            let children =
                std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
            let _ = child.kill();
            let _ = child.wait();
            // Also kill the backends. They would end by themselves, but on a busy machine they might answer one more
            // query before they do.
            let _ = Command::new("kill")
                .arg("-9")
                .args(children.split_whitespace())
                .stderr(Stdio::null())
                .status();
        }
    }

    /// Restarts the server after a crash.
    pub fn restart(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + START_MAX;
        loop {
            let settings = ["listen_addresses=", "max_connections=400", "shared_buffers=64MB"];
            let mut command = self.command("postgres");
            for setting in settings {
                command.args(["-c", setting]);
            }
            command.arg("-D").arg(self.data_dir()).arg("-k").arg(self.dir.path());
            let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
            let mut child = child.map_err(|error| format!("it does not start: {error}"))?;
            loop {
                if run_command(self.command("pg_isready").arg("-q").arg("-h").arg(self.dir.path())).is_ok() {
                    self.child = Some(child);
                    return Ok(());
                }
                if Instant::now() > deadline {
                    let _ = child.kill();
                    return Err("it did not start in time".into());
                }
                // The server exited, because processes of the killed server are still ending. Start it again.
                if child.try_wait().is_ok_and(|ended| ended.is_some()) {
                    break;
                }
                std::thread::sleep(START_PAUSE);
            }
        }
    }

    /// Kills the server and restarts it as a promoted standby, on a new timeline.
    pub fn fail_over(&mut self) -> Result<(), String> {
        self.kill();
        let signal = self.data_dir().join("standby.signal");
        std::fs::write(signal, "").map_err(|error| format!("it cannot become a standby: {error}"))?;
        self.restart()?;
        run_command(self.command("pg_ctl").args(["promote", "--wait", "--pgdata"]).arg(self.data_dir()))
    }

    /// Returns the path of the server's socket.
    pub fn socket(&self) -> PathBuf {
        self.dir.path().join(".s.PGSQL.5432")
    }

    pub fn url(&self, database: &str) -> String {
        let dir = self.dir.path().display().to_string().replace('/', "%2F");
        format!("postgres://berth@{dir}/{database}")
    }

    fn data_dir(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn command(&self, program: &str) -> Command {
        let program = self.bin.join(program);
        let mut command = Command::new(if is_root() { Path::new("setpriv") } else { program.as_path() });
        if is_root() {
            command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]).arg(&program);
        }
        command.current_dir(self.dir.path());
        command
    }
}

impl Drop for PostgresServer {
    /// Performs an immediate shutdown, which also frees the server's shared memory.
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = kill_process(Pid::from_child(child), Signal::QUIT);
            let deadline = Instant::now() + STOP_MAX;
            while Instant::now() < deadline && child.try_wait().is_ok_and(|ended| ended.is_none()) {
                std::thread::sleep(START_PAUSE);
            }
        }
        self.kill();
    }
}

fn parent_dir() -> PathBuf {
    let free = rustix::fs::statvfs(MEMORY_DIR).map(|info| info.f_bavail * info.f_frsize);
    if free.is_ok_and(|bytes| bytes >= MEMORY_BYTES_MIN) { MEMORY_DIR.into() } else { "/tmp".into() }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn run_command(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr))),
    }
}
