//! A demo server for a task: started, asked, ended in every case.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// The server promises to end within this.
const STOP_MAX: Duration = Duration::from_secs(10);
const ANSWER_MAX: Duration = Duration::from_secs(20);
const POLL_EVERY: Duration = Duration::from_millis(20);

pub(crate) struct Served {
    child: Child,
    log: PathBuf,
    /// What the demo printed: `baseUrl` and `organizations`.
    pub(crate) told: Value,
}

impl Served {
    /// Starts `berth serve --demo`, in which nothing happens by itself, on any free port; what it logs goes to this file.
    pub(crate) fn start(berth: &Path, log: &Path) -> Result<Self, String> {
        let file = File::create(log).map_err(|error| format!("cannot write {}: {error}", log.display()))?;
        let mut command = Command::new(berth);
        command.args([
            "serve",
            "--demo",
            "--bare",
            "--json",
            "--listen",
            "127.0.0.1:0",
            "--rate-limit",
            "off",
        ]);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("BERTH_"))
        {
            command.env_remove(name);
        }
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(file).spawn();
        let child = child.map_err(|error| format!("cannot start {}: {error}", berth.display()))?;
        // From here on the value ends the process, also when its line is not what we expect.
        let mut served = Self { child, log: log.to_owned(), told: Value::Null };
        let mut line = String::new();
        if let Some(stdout) = served.child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line).map_err(|error| error.to_string())?;
        }
        served.told =
            serde_json::from_str(&line).map_err(|_| format!("the demo did not start: {}", served.log()))?;
        Ok(served)
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// The text at this place of what the demo told.
    pub(crate) fn text(&self, pointer: &str) -> Result<&str, String> {
        let found = self.told.pointer(pointer).and_then(Value::as_str);
        found.ok_or_else(|| format!("the demo did not tell {pointer}"))
    }

    /// One request below the base; the body of a good answer.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        let (base, token) = (self.text("/baseUrl")?, self.text("/organizations/0/apiToken")?);
        let bare = base.strip_prefix("http://").unwrap_or(base);
        let (address, prefix) = bare.split_once('/').ok_or("a base address without a path")?;
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = format!(
            "{method} /{prefix}{path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
             Authorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let answer = exchange(address, &request).map_err(|error| format!("{method} {path}: {error}"))?;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = head.split(' ').nth(1).unwrap_or_default();
        if !status.starts_with('2') {
            return Err(format!("{method} {path} was answered with {status}: {body}"));
        }
        serde_json::from_str(body).map_err(|error| format!("{method} {path}: {error}"))
    }

    /// Asks it to end, and wants it to do so in time, with code 0 and without a bad word in its log.
    pub(crate) fn stop(mut self) -> Result<(), String> {
        let terminate = format!("kill -TERM {}", self.child.id());
        crate::tool::run(Command::new("sh").args(["-c", &terminate]))?;
        match wait(&mut self.child, STOP_MAX)? {
            None => return Err(format!("the server did not end within {} s", STOP_MAX.as_secs())),
            Some(status) if !status.success() => return Err(format!("the server ended with {status}")),
            Some(_) => {}
        }
        let log = self.log();
        let bad = log.lines().find(|line| line.contains("panicked") || line.contains("\"level\":\"ERROR\""));
        bad.map_or(Ok(()), |line| Err(format!("the server logged: {line}")))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The end of a child, or nothing when it is still running after so long.
pub(crate) fn wait(child: &mut Child, within: Duration) -> Result<Option<ExitStatus>, String> {
    let deadline = Instant::now() + within;
    loop {
        match child.try_wait() {
            Ok(None) if Instant::now() < deadline => std::thread::sleep(POLL_EVERY),
            Ok(ended) => return Ok(ended),
            Err(error) => return Err(format!("cannot wait for a program: {error}")),
        }
    }
}

fn exchange(address: &str, request: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(ANSWER_MAX))?;
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
