//! A demo server for use by a task, stopped on drop.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// The server promises to shut down within this time.
const STOP_MAX: Duration = Duration::from_secs(10);
const ANSWER_MAX: Duration = Duration::from_secs(20);
const POLL_EVERY: Duration = Duration::from_millis(20);

pub(crate) struct DemoServer {
    child: Child,
    log: PathBuf,
    /// The JSON that the demo printed, with `baseUrl` and `organizations`.
    pub(crate) announcement: Value,
}

impl DemoServer {
    /// Starts `berth serve --demo` on a free port, without its background activity, and writes its log to this file.
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
        // From here on the process is killed when this value is dropped.
        let mut served = Self { child, log: log.to_owned(), announcement: Value::Null };
        let mut line = String::new();
        if let Some(stdout) = served.child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line).map_err(|error| error.to_string())?;
        }
        served.announcement =
            serde_json::from_str(&line).map_err(|_| format!("the demo did not start: {}", served.log()))?;
        Ok(served)
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// Returns a value that the demo printed, by JSON pointer.
    pub(crate) fn announced_text(&self, pointer: &str) -> Result<&str, String> {
        let found = self.announcement.pointer(pointer).and_then(Value::as_str);
        found.ok_or_else(|| format!("the demo did not print {pointer}"))
    }

    /// Sends a `GET`, or a `POST` if there is a body, to a path below the base URL. Returns the body of a successful
    /// response.
    pub(crate) fn send_request(&self, path: &str, body: Option<&Value>) -> Result<Value, String> {
        let (base, token) =
            (self.announced_text("/baseUrl")?, self.announced_text("/organizations/0/apiToken")?);
        let (url, bearer) = (format!("{base}{path}"), format!("Bearer {token}"));
        let config = ureq::Agent::config_builder().proxy(None).http_status_as_error(false);
        let agent = config.timeout_global(Some(ANSWER_MAX)).build().new_agent();
        let answer = match body {
            None => agent.get(url).header("Authorization", bearer).call(),
            Some(body) => {
                let post = agent.post(url).header("Authorization", bearer);
                post.content_type("application/json").send(body.to_string())
            }
        };
        let mut answer = answer.map_err(|error| format!("{path}: {error}"))?;
        let text = answer.body_mut().read_to_string().map_err(|error| format!("{path}: {error}"))?;
        if !answer.status().is_success() {
            return Err(format!("{path} returned {}: {text}", answer.status()));
        }
        serde_json::from_str(&text).map_err(|error| format!("{path}: {error}"))
    }

    /// Stops the server, and checks that it exits in time with status 0 and without errors in its log.
    pub(crate) fn stop(mut self) -> Result<(), String> {
        let terminate = format!("kill -TERM {}", self.child.id());
        crate::tool::run(Command::new("sh").args(["-c", &terminate]))?;
        match wait(&mut self.child, STOP_MAX)? {
            None => return Err(format!("the server did not stop within {} s", STOP_MAX.as_secs())),
            Some(status) if !status.success() => return Err(format!("the server exited with {status}")),
            Some(_) => {}
        }
        let log = self.log();
        let bad = log.lines().find(|line| line.contains("panicked") || line.contains("\"level\":\"ERROR\""));
        bad.map_or(Ok(()), |line| Err(format!("the server logged: {line}")))
    }
}

impl Drop for DemoServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits for a child; returns `None` if it is still running after `within`.
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
