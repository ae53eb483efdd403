//! Runs the `berth` binary as a child process with its data in a temporary directory.

use std::fs::DirBuilder;
use std::io::{BufRead as _, BufReader, Read};
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use berth_testkit::{ScratchDatabase, copy_dir, template_dir};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::client::ApiHandle;

/// The server promises to shut down within this time.
pub(crate) const STOP_MAX: Duration = Duration::from_secs(30);
const START_MAX: Duration = Duration::from_secs(120);
const POLL_EVERY: Duration = Duration::from_millis(2);

/// A valid definition without steps.
pub(crate) const DEFINITION: &str = "version: 1
pipeline:
  name: Shop
  stages:
    - name: sandbox
  steps:
    - name: Pretend
      type: dummy
";

/// Polls until `look` returns a value; panics after the timeout.
pub(crate) fn wait_until<T>(within: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + within;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "no {what} within {within:?}");
        std::thread::sleep(POLL_EVERY);
    }
}

/// Path of the binary under test: cargo's build, or the value of `BERTH_PROGRAM`, for example a release build.
pub(crate) fn program() -> PathBuf {
    std::env::var_os("BERTH_PROGRAM").map_or_else(|| env!("CARGO_BIN_EXE_berth").into(), PathBuf::from)
}

/// Returns a command for the binary that does not inherit the `BERTH_…` settings of the user who runs the tests.
pub(crate) fn berth(args: &[&str]) -> Command {
    berth_of(&program(), args)
}

/// Like [`berth`], for another binary, such as one of a previous version.
pub(crate) fn berth_of(program: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("BERTH_")) {
        command.env_remove(name);
    }
    // Use the cheapest password hash, because no test measures hashing time.
    command.env("BERTH_PASSWORDS__MEMORY_KIB", "8192").env("BERTH_PASSWORDS__PASSES", "1");
    command.args(args);
    command
}

/// Runs the program to completion.
pub(crate) fn run(args: &[&str]) -> ProcessOutput {
    BerthProcess::start(&mut berth(args)).wait(START_MAX)
}

#[derive(Debug)]
pub(crate) struct ProcessOutput {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl ProcessOutput {
    pub(crate) fn expect_refusal(&self, words: &[&str]) {
        assert_eq!(self.code, Some(1), "{self:?}");
        assert_eq!(self.stdout, "", "{self:?}");
        for word in words {
            assert!(self.stderr.contains(word), "{word:?} is not in {self:?}");
        }
    }

    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.code, Some(0), "{self:?}");
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// A running `berth` process, killed on drop. Dropping it panics if the process has panicked.
pub(crate) struct BerthProcess {
    child: Child,
    stdout: CapturedPipe,
    stderr: CapturedPipe,
}

impl BerthProcess {
    pub(crate) fn start(command: &mut Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let stdout = CapturedPipe::from(child.stdout.take().expect("its standard output"));
        let stderr = CapturedPipe::from(child.stderr.take().expect("its standard error"));
        Self { child, stdout, stderr }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the first line of output. A server prints it once it accepts requests.
    pub(crate) fn first_line(&mut self) -> String {
        let line = self.first_line_or_end();
        line.unwrap_or_else(|| panic!("it ended instead of starting: {}", self.stderr.text()))
    }

    /// Like [`BerthProcess::first_line`]; `None` if the program ends without output.
    pub(crate) fn first_line_or_end(&mut self) -> Option<String> {
        wait_until(START_MAX, "first line", || {
            let has_ended = self.has_ended();
            let line = self.stdout.text().split_once('\n').map(|(line, _)| line.to_owned());
            (line.is_some() || has_ended).then_some(line)
        })
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("its status").is_some()
    }

    pub(crate) fn stdout_now(&self) -> String {
        self.stdout.text()
    }

    pub(crate) fn stderr(&self) -> String {
        self.stderr.text()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("the signal is sent");
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it ends");
    }

    pub(crate) fn wait(mut self, within: Duration) -> ProcessOutput {
        let status: ExitStatus =
            wait_until(within, "end of the program", || self.child.try_wait().expect("its status"));
        ProcessOutput { code: status.code(), stdout: self.stdout.read_all(), stderr: self.stderr.read_all() }
    }
}

impl Drop for BerthProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let log = self.stderr.read_all();
        if std::thread::panicking() {
            let lines: Vec<_> = log.lines().rev().take(20).collect();
            eprintln!("the program's last words, newest first:\n{}", lines.join("\n"));
        } else {
            assert!(!log.contains("panicked"), "the program panicked: {log}");
        }
    }
}

/// Collects the output of a pipe in the background.
struct CapturedPipe {
    text: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
}

impl CapturedPipe {
    fn from(pipe: impl Read + Send + 'static) -> Self {
        let text = Arc::new(Mutex::new(String::new()));
        let filled = text.clone();
        let reader = std::thread::spawn(move || {
            let (mut lines, mut line) = (BufReader::new(pipe), Vec::new());
            while lines.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
                filled.lock().expect("unpoisoned").push_str(&String::from_utf8_lossy(&line));
                line.clear();
            }
        });
        Self { text, reader: Some(reader) }
    }

    fn text(&self) -> String {
        self.text.lock().expect("unpoisoned").clone()
    }

    /// Returns the whole output once the program has ended.
    fn read_all(&mut self) -> String {
        if let Some(reader) = self.reader.take() {
            reader.join().expect("the reader ends with its pipe");
        }
        self.text()
    }
}

/// A data directory with the organization acme, and its owner's token.
pub(crate) struct TestHome {
    temp: TempDir,
    /// `None`: SQLite in the directory.
    database: Option<String>,
    _postgres: Option<ScratchDatabase>,
    pub(crate) token: String,
}

impl TestHome {
    pub(crate) fn new() -> Self {
        match ScratchDatabase::new_if_wanted() {
            None => Self::on_sqlite(),
            Some(postgres) => {
                let home = Self::on_database(postgres.url());
                Self { _postgres: Some(postgres), ..home }
            }
        }
    }

    /// Uses SQLite even if the other tests run on PostgreSQL.
    pub(crate) fn on_sqlite() -> Self {
        let template = template_dir("home", &program(), "", |dir| {
            let made = init(&dir.join("data"), "acme", "ada@acme.test").json();
            let token = made["apiToken"].as_str().expect("a token");
            std::fs::write(dir.join("token"), token).expect("written");
        });
        let temp = tempfile::tempdir().expect("a temporary directory");
        let data = temp.path().join("data");
        DirBuilder::new().mode(0o700).create(&data).expect("a data directory");
        copy_dir(&template.join("data"), &data);
        let token = std::fs::read_to_string(template.join("token")).expect("a token");
        Self { temp, database: None, _postgres: None, token }
    }

    /// Uses the PostgreSQL database at this URL.
    pub(crate) fn on_database(url: String) -> Self {
        let temp = tempfile::tempdir().expect("a temporary directory");
        let mut command = init_command(&temp.path().join("data"), "acme", "ada@acme.test");
        command.args(["--database", &url]);
        let made = BerthProcess::start(&mut command).wait(START_MAX).json();
        let token = made["apiToken"].as_str().expect("a token").to_owned();
        Self { temp, database: Some(url), _postgres: None, token }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.temp.path().join("data")
    }

    /// `None`: SQLite in the directory.
    pub(crate) fn database(&self) -> Option<&str> {
        self.database.as_deref()
    }

    pub(crate) fn serve(&self) -> TestServer {
        TestServer::start(&mut self.serve_command(), &self.token)
    }

    pub(crate) fn serve_command(&self) -> Command {
        self.serve_command_of(&program())
    }

    /// Returns the command of a server that is another binary, such as one of a previous version.
    pub(crate) fn serve_command_of(&self, program: &Path) -> Command {
        let args = ["serve", "--local", "--listen", "127.0.0.1:0", "--rate-limit", "off", "--data-dir"];
        let mut command = berth_of(program, &args);
        command.arg(self.path());
        if let Some(url) = &self.database {
            command.args(["--database", url]);
        }
        command
    }
}

/// Runs `berth init --json` in this directory.
pub(crate) fn init(dir: &Path, org: &str, email: &str) -> ProcessOutput {
    BerthProcess::start(&mut init_command(dir, org, email)).wait(START_MAX)
}

fn init_command(dir: &Path, org: &str, email: &str) -> Command {
    let dir = dir.to_str().expect("a path in UTF-8");
    berth(&["init", "--data-dir", dir, "--org", org, "--email", email, "--json"])
}

/// A running server that accepts requests.
pub(crate) struct TestServer {
    pub(crate) process: BerthProcess,
    pub(crate) address: SocketAddr,
    pub(crate) api: ApiHandle,
}

impl TestServer {
    pub(crate) fn start(command: &mut Command, token: &str) -> Self {
        let mut process = BerthProcess::start(command);
        let line = process.first_line();
        let address = line.strip_prefix("berth is serving at http://").expect("its address");
        let address = address.parse().expect("an address with a port");
        Self { process, address, api: ApiHandle { address, token: token.to_owned() } }
    }

    /// Sends SIGTERM and expects a clean exit within the deadline.
    pub(crate) fn stop(self) -> ProcessOutput {
        self.process.signal(Signal::TERM);
        let ran = self.process.wait(STOP_MAX);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        ran
    }

    /// Checks that the server still responds and has not panicked.
    pub(crate) fn check_healthy(&self) {
        let answer = self.api.send(&crate::client::RawRequest::new("GET", "/healthz"));
        assert_eq!((answer.status, answer.json()["data"]["status"].as_str()), (200, Some("ok")));
        let log = self.process.stderr();
        assert!(!log.contains("panicked"), "{log}");
    }
}
