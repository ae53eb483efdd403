//! An SMTP server for tests: aiosmtpd, which can be stopped and started again.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Environment variable with the Python interpreter that has the packages of the tests.
const PYTHON: &str = "BERTH_TEST_PYTHON";
const START_MAX: Duration = Duration::from_secs(120);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// An SMTP server that keeps all messages.
pub struct SmtpSink {
    python: PathBuf,
    pub port: u16,
    child: Option<Child>,
    messages: tempfile::TempDir,
}

/// A message that the server accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedMail {
    pub to: String,
    /// Headers and body as sent.
    pub raw: String,
}

impl ReceivedMail {
    /// The value of a header that is on one line.
    pub fn header(&self, name: &str) -> &str {
        let found = self.raw.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        found.unwrap_or_default()
    }

    /// The body, with quoted-printable encoding removed.
    pub fn text(&self) -> String {
        let (_, body) = self.raw.split_once("\n\n").unwrap_or_default();
        if !self.raw.contains("Content-Transfer-Encoding: quoted-printable") {
            return body.to_owned();
        }
        let joined = body.replace("=\n", "");
        let mut parts = joined.split('=');
        let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
        for part in parts {
            let (code, rest) = part.split_at(part.len().min(2));
            bytes.extend(u8::from_str_radix(code, 16).ok());
            bytes.extend(rest.as_bytes());
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl SmtpSink {
    /// Reserves a port, without starting the server. `None` if aiosmtpd is not installed.
    pub fn new_if_installed() -> Option<Self> {
        let python = PathBuf::from(std::env::var_os(PYTHON)?);
        let found = Command::new(&python).args(["-c", "import aiosmtpd"]).stderr(Stdio::null()).status();
        if !found.is_ok_and(|status| status.success()) {
            return None;
        }
        let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).ok()?.port();
        Some(Self { python, port, child: None, messages: tempfile::tempdir().ok()? })
    }

    /// Starts the server, and waits until it accepts connections.
    pub fn start(&mut self) {
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/smtp_sink.py");
        let mut command = Command::new(&self.python);
        command.arg(program).arg(self.port.to_string()).arg(self.messages.path());
        let started = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
        let Ok(child) = started else { panic!("the SMTP server cannot be started") };
        self.child = Some(child);
        let deadline = Instant::now() + START_MAX;
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(Instant::now() < deadline, "the SMTP server did not start in time");
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    pub fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// All messages so far, in the order in which they arrived.
    pub fn messages(&self) -> Vec<ReceivedMail> {
        let files = std::fs::read_dir(self.messages.path()).into_iter().flatten().flatten();
        let mut names: Vec<PathBuf> = files.map(|file| file.path()).collect();
        names.retain(|name| name.extension().is_none());
        names.sort();
        let read = names.iter().filter_map(|name| std::fs::read(name).ok());
        read.map(|bytes| {
            let text = String::from_utf8_lossy(&bytes).replace("\r\n", "\n");
            let (to, raw) = text.split_once('\n').unwrap_or_default();
            ReceivedMail { to: to.to_owned(), raw: raw.to_owned() }
        })
        .collect()
    }
}

impl Drop for SmtpSink {
    fn drop(&mut self) {
        self.stop();
    }
}
