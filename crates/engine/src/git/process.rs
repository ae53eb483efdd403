//! Runs a git process in its own process group, with a clean environment and with limits on time, output and disk
//! usage.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::fs::{Access, access};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::GitError;

/// Maximum size of stdout. The largest outputs are lists of refs and files.
const OUTPUT_BYTES_MAX: usize = 32 * 1024 * 1024;
const STDERR_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of characters of stderr that are shown to users.
const SHOWN_CHARS_MAX: usize = 500;
/// How long to wait for the output pipes to close after git has exited. A child process of git may keep them open.
const PIPES_CLOSE_MAX: Duration = Duration::from_secs(2);
/// Interval between two checks of the disk usage.
const MEASURE_EVERY: Duration = Duration::from_millis(200);

/// Environment variables that git inherits from the server: locations of programs, proxies and certificates.
const KEPT_VARIABLES: &[&str] = &[
    "PATH",
    "HTTPS_PROXY",
    "https_proxy",
    "NO_PROXY",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "GIT_EXEC_PATH",
];

const VARIABLES: &[(&str, &str)] = &[
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_LITERAL_PATHSPECS", "1"),
    ("HOME", "/nonexistent"),
    ("LC_ALL", "C"),
];

/// Git settings for every process. They prevent a repository from configuring programs to run, and limit memory for
/// small servers.
const SETTINGS: &[&str] = &[
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    "core.protectHFS=true",
    "core.protectNTFS=true",
    "core.packedGitWindowSize=16m",
    "core.packedGitLimit=128m",
    "core.deltaBaseCacheLimit=32m",
    "core.bigFileThreshold=16m",
    "pack.threads=1",
    "pack.windowMemory=32m",
    "index.threads=1",
    "checkout.workers=1",
    "gc.auto=0",
    "maintenance.auto=false",
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
    "protocol.ext.allow=never",
    "transfer.bundleURI=false",
    "transfer.fsckObjects=true",
    // Ignore harmless defects that old git implementations left in many repositories.
    "fetch.fsck.zeroPaddedFilemode=ignore",
    "fetch.fsck.badTimezone=ignore",
    "fetch.fsck.missingSpaceBeforeDate=ignore",
    "http.followRedirects=false",
    "http.lowSpeedLimit=1",
    "http.lowSpeedTime=60",
    "credential.helper=",
    "init.defaultBranch=main",
];

/// The running git processes, which are killed at shutdown.
#[derive(Clone, Default)]
pub struct GitProcesses(Arc<Mutex<ProcessTable>>);

#[derive(Default)]
struct ProcessTable {
    is_stopping: bool,
    next: u64,
    ends: Vec<(u64, Sender<GitProcessEnd>)>,
}

impl GitProcesses {
    pub(super) fn stop(&self) {
        let mut runs = self.0.lock();
        runs.is_stopping = true;
        for (_, end) in runs.ends.drain(..) {
            // Sending fails if the process has just ended and its receiver was dropped.
            let _ = end.send(GitProcessEnd::Stopping);
        }
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.0.lock().is_stopping
    }

    fn register_process(&self, end: Sender<GitProcessEnd>) -> Result<u64, GitError> {
        let mut runs = self.0.lock();
        if runs.is_stopping {
            return Err(GitError::Stopping);
        }
        runs.next += 1;
        let number = runs.next;
        runs.ends.push((number, end));
        Ok(number)
    }

    fn remove_process(&self, number: u64) {
        let mut runs = self.0.lock();
        runs.ends.retain(|(other, _)| *other != number);
    }
}

/// Why the watchdog stopped waiting for the process.
#[derive(Clone, Copy)]
enum GitProcessEnd {
    ByItself,
    TooMuchOutput,
    TooSlow,
    TooLarge,
    Stopping,
}

/// A directory that git must not grow beyond a size limit.
pub(super) struct GrowthLimit {
    pub(super) of: PathBuf,
    pub(super) bytes_max: u64,
}

pub(super) struct GitCommand<'a> {
    command: Command,
    live: &'a GitProcesses,
    time_max: Duration,
    growth: Option<GrowthLimit>,
    /// Strings that are removed from error messages.
    hidden: Vec<String>,
}

pub(super) struct GitOutput {
    pub(super) status: ExitStatus,
    pub(super) stdout: Vec<u8>,
    stderr: String,
}

impl GitOutput {
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// The last lines of stderr, without hidden strings.
    pub(super) fn warnings(&self) -> &str {
        &self.stderr
    }

    pub(super) fn ok(self) -> Result<Self, GitError> {
        if self.status.success() { Ok(self) } else { Err(GitError::Failed(self.stderr)) }
    }
}

/// Returns git's path, or its name if it is not installed. A name is searched in the PATH of the new process: the standard
/// library then forks, and copies the page tables of the server for each command.
fn find_git() -> &'static Path {
    static FOUND: LazyLock<PathBuf> = LazyLock::new(|| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut files =
            std::env::split_paths(&path).filter(|dir| dir.is_absolute()).map(|dir| dir.join("git"));
        let is_program = |file: &PathBuf| access(file, Access::EXEC_OK).is_ok() && file.is_file();
        files.find(is_program).unwrap_or_else(|| "git".into())
    });
    &FOUND
}

impl<'a> GitCommand<'a> {
    pub(super) fn without_repository(live: &'a GitProcesses, time_max: Duration) -> Self {
        let mut command = Command::new(find_git());
        command.env_clear().process_group(0).stdin(Stdio::null()).current_dir("/");
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.envs(KEPT_VARIABLES.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        command.envs(VARIABLES.iter().copied());
        // Forbid all transports. Callers that access a remote allow the one they need.
        command.env("GIT_ALLOW_PROTOCOL", "none");
        for setting in SETTINGS {
            command.args(["-c", setting]);
        }
        Self { command, live, time_max, growth: None, hidden: Vec::new() }
    }

    pub(super) fn in_mirror(live: &'a GitProcesses, time_max: Duration, mirror: &Path) -> Self {
        let git = Self::without_repository(live, time_max).arg("--git-dir").arg(mirror);
        git.hide(&mirror.to_string_lossy())
    }

    pub(super) fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.command.arg(arg);
        self
    }

    pub(super) fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.command.args(args);
        self
    }

    pub(super) fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.command.env(name, value.into());
        self
    }

    pub(super) fn hide(mut self, text: &str) -> Self {
        self.hidden.extend((!text.is_empty()).then(|| text.to_owned()));
        self
    }

    /// Uses the file as standard input.
    pub(super) fn stdin_file(mut self, file: std::fs::File) -> Self {
        self.command.stdin(file);
        self
    }

    pub(super) fn with_growth_limit(self, growth: GrowthLimit) -> Self {
        Self { growth: Some(growth), ..self }
    }

    /// Runs git until it exits. The caller has to check the exit status; see [`GitOutput::ok`].
    pub(super) fn run(mut self) -> Result<GitOutput, GitError> {
        let (tell, told) = channel();
        let number = self.live.register_process(tell.clone())?;
        let spawned = self.command.spawn().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => GitError::Missing(
                "git is not installed on this server; repositories require git 2.39 or newer".into(),
            ),
            _ => GitError::Io { action: "git cannot be run", source: error },
        });
        let watched = spawned.and_then(|child| self.watch(child, &tell, told));
        self.live.remove_process(number);
        watched
    }

    fn watch(
        &self,
        mut child: Child,
        tell: &Sender<GitProcessEnd>,
        told: Receiver<GitProcessEnd>,
    ) -> Result<GitOutput, GitError> {
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| GitError::Failed("git has no process id".into()))?;
        let stdout = collect(child.stdout.take(), OUTPUT_BYTES_MAX, Some(tell.clone()));
        let stderr = collect(child.stderr.take(), STDERR_BYTES_MAX, None);
        let end = std::thread::scope(|scope| {
            let watchdog = scope.spawn(move || self.wait_or_kill(&told, pid));
            // Wait without reaping the process. Its pid cannot be reused until it is reaped, so the kill below can only
            // reach git and its children.
            let waited = loop {
                match waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
                    Err(rustix::io::Errno::INTR) => {}
                    other => break other,
                }
            };
            let _ = tell.send(GitProcessEnd::ByItself);
            let end = watchdog.join().unwrap_or(GitProcessEnd::Stopping);
            waited.map(|_| end)
        });
        let _ = kill_process_group(pid, Signal::KILL);
        let status = child.wait().map_err(GitError::io("git cannot be waited for"))?;
        let end =
            end.map_err(|error| GitError::Io { action: "git cannot be waited for", source: error.into() })?;
        match end {
            GitProcessEnd::ByItself => {}
            GitProcessEnd::TooSlow => return Err(GitError::TooSlow(self.time_max.as_secs())),
            GitProcessEnd::TooMuchOutput => {
                return Err(GitError::TooLarge("git printed too much output".into()));
            }
            GitProcessEnd::TooLarge => {
                return Err(GitError::TooLarge("the repository grows larger than the limit".into()));
            }
            GitProcessEnd::Stopping => return Err(GitError::Stopping),
        }
        let late = |_| GitError::Failed("a child of git did not end with it".into());
        let stdout = stdout.recv_timeout(PIPES_CLOSE_MAX).map_err(late)?;
        let stderr = stderr.recv_timeout(PIPES_CLOSE_MAX).map_err(late)?;
        Ok(GitOutput { status, stdout, stderr: self.redact_stderr(&String::from_utf8_lossy(&stderr)) })
    }

    /// Waits until the process ends, and kills it if it exceeds a limit.
    fn wait_or_kill(&self, told: &Receiver<GitProcessEnd>, pid: Pid) -> GitProcessEnd {
        let deadline = Instant::now() + self.time_max;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let pause = if self.growth.is_some() { left.min(MEASURE_EVERY) } else { left };
            let end = match told.recv_timeout(pause) {
                Ok(end) => end,
                Err(RecvTimeoutError::Disconnected) => GitProcessEnd::Stopping,
                Err(RecvTimeoutError::Timeout) if Instant::now() >= deadline => GitProcessEnd::TooSlow,
                Err(RecvTimeoutError::Timeout) => {
                    let is_over =
                        self.growth.as_ref().is_some_and(|it| directory_size(&it.of) > it.bytes_max);
                    if is_over { GitProcessEnd::TooLarge } else { continue }
                }
            };
            if !matches!(end, GitProcessEnd::ByItself) {
                let _ = kill_process_group(pid, Signal::KILL);
            }
            return end;
        }
    }

    /// Returns the last lines of stderr as a single line, without the hidden strings.
    fn redact_stderr(&self, said: &str) -> String {
        let mut text = said.to_owned();
        for hidden in &self.hidden {
            text = text.replace(hidden.as_str(), "…");
        }
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let told: Vec<_> = lines.filter(|line| !line.starts_with("hint:")).collect();
        let told = told[told.len().saturating_sub(4)..].join("; ");
        let plain: String = told.chars().filter(|c| !c.is_control()).take(SHOWN_CHARS_MAX).collect();
        if plain.is_empty() { "git failed without saying why".to_owned() } else { plain }
    }
}

/// Reads a pipe to its end on a separate thread. Discards output beyond the limit, and reports that the limit was
/// exceeded.
fn collect(
    pipe: Option<impl Read + Send + 'static>,
    bytes_max: usize,
    over: Option<Sender<GitProcessEnd>>,
) -> Receiver<Vec<u8>> {
    let (tell, told) = channel();
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        let mut buffer = [0; 16 * 1024];
        let Some(mut pipe) = pipe else { return };
        loop {
            match pipe.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => {
                    let room = bytes_max - kept.len();
                    kept.extend_from_slice(&buffer[..count.min(room)]);
                    if let (true, Some(over)) = (count > room, &over) {
                        let _ = over.send(GitProcessEnd::TooMuchOutput);
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        let _ = tell.send(kept);
    });
    told
}

/// Returns the total size of the files in a directory, down to five levels, which covers the object directories of git
/// and git-lfs.
pub(super) fn directory_size(dir: &Path) -> u64 {
    fn sum_file_sizes(dir: &Path, depth: u32) -> u64 {
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        entries.fold(0, |sum, entry| match entry.metadata() {
            Ok(found) if found.is_dir() && depth > 0 => sum + sum_file_sizes(&entry.path(), depth - 1),
            Ok(found) if found.is_file() => sum + found.len(),
            _ => sum,
        })
    }
    sum_file_sizes(dir, 5)
}
