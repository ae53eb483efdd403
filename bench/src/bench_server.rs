//! Runs the `berth` binary in a separate process, without rate limits, and provides a client of its API.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;

use crate::load::{LoadConnection, ServerTarget};
use crate::process::BenchServer;

pub(crate) const ORGANIZATION: &str = "/api/v1/organizations/acme";
pub(crate) const PIPELINES: &str = "/api/v1/organizations/acme/pipelines";

/// Creates a data directory and starts a server with additional arguments.
pub(crate) fn start(dir: &Path, args: &[&str]) -> anyhow::Result<(BenchServer, ServerTarget)> {
    let token = init(dir, &[])?;
    serve(dir, args, &token)
}

/// Creates an installation, optionally in a given database, and returns the owner's token.
pub(crate) fn init(dir: &Path, args: &[&str]) -> anyhow::Result<String> {
    let program = berth_program()?;
    let all = [&["init", "--org", "acme", "--email", "ada@acme.test", "--json"], args].concat();
    let mut init = berth_command(&program, &all, dir);
    let made = init.output().with_context(|| format!("cannot run {}", program.display()))?;
    ensure!(made.status.success(), "berth init failed: {}", String::from_utf8_lossy(&made.stderr));
    let made: Value = serde_json::from_slice(&made.stdout).context("berth init does not print JSON")?;
    Ok(made["apiToken"].as_str().context("berth init prints no token")?.to_owned())
}

/// Starts a server on the installation that [`init`] created.
pub(crate) fn serve(dir: &Path, args: &[&str], token: &str) -> anyhow::Result<(BenchServer, ServerTarget)> {
    let program = berth_program()?;
    let all = [&["serve", "--listen", "127.0.0.1:0", "--rate-limit", "off"], args].concat();
    let mut server = BenchServer::start(berth_command(&program, &all, dir).env("BERTH_LOG__LEVEL", "warn"))?;
    let mut line = String::new();
    let stdout = server.child.stdout.take().context("berth serve has no output")?;
    BufReader::new(stdout).read_line(&mut line)?;
    let address = line.trim().strip_prefix("berth is serving at http://").context("berth did not start")?;
    let target = ServerTarget { address: address.parse()?, token: token.to_owned() };
    Ok((server, target))
}

/// Starts a server on an existing directory without waiting until it is ready.
pub(crate) fn serve_at(dir: &Path, listen: SocketAddr) -> anyhow::Result<BenchServer> {
    let args = ["serve", "--listen", &listen.to_string()];
    BenchServer::start(berth_command(&berth_program()?, &args, dir).env("BERTH_LOG__LEVEL", "warn"))
}

/// Returns the path of the `berth` binary next to the benchmark, built with the same profile.
pub(crate) fn berth_program() -> anyhow::Result<PathBuf> {
    let program = std::env::current_exe()?.with_file_name("berth");
    ensure!(
        program.is_file(),
        "{} is missing; `cargo xtask bench` builds it with optimizations",
        program.display()
    );
    Ok(program)
}

/// Returns a command that does not inherit settings from the caller's environment.
fn berth_command(program: &Path, args: &[&str], dir: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("BERTH_")) {
        command.env_remove(name);
    }
    command.args(args).arg("--data-dir").arg(dir);
    command
}

/// JSON client that sends one request after the other.
pub(crate) struct JsonApiClient {
    connection: LoadConnection,
    target: ServerTarget,
}

impl JsonApiClient {
    pub(crate) async fn open(target: &ServerTarget) -> anyhow::Result<Self> {
        Ok(Self { connection: LoadConnection::open(target).await?, target: target.clone() })
    }

    /// Sends a GET request and returns `data` of the response.
    pub(crate) async fn get(&mut self, path: &str) -> anyhow::Result<Value> {
        response_data("GET", path, self.connection.get(path).await?)
    }

    /// Sends a GET request and returns the response's body as text.
    pub(crate) async fn get_text(&mut self, path: &str) -> anyhow::Result<String> {
        let (status, body) = self.connection.get(path).await?;
        let body = String::from_utf8_lossy(body).into_owned();
        ensure!(status == 200, "GET {path} returned {status}: {body}");
        Ok(body)
    }

    pub(crate) async fn post(&mut self, path: &str, body: &Value) -> anyhow::Result<Value> {
        self.send("POST", path, &body.to_string()).await
    }

    pub(crate) async fn delete(&mut self, path: &str) -> anyhow::Result<Value> {
        self.send("DELETE", path, "").await
    }

    async fn send(&mut self, method: &str, path: &str, body: &str) -> anyhow::Result<Value> {
        let ServerTarget { address, token } = &self.target;
        let mut request = Vec::new();
        write!(
            request,
            "{method} {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )?;
        response_data(method, path, self.connection.send_request(&request).await?)
    }
}

fn response_data(method: &str, path: &str, (status, body): (u16, &[u8])) -> anyhow::Result<Value> {
    if !(200..300).contains(&status) {
        bail!("{method} {path} returned {status}: {}", String::from_utf8_lossy(body));
    }
    let mut answer: Value = serde_json::from_slice(body).context("an answer that is not JSON")?;
    Ok(answer["data"].take())
}
