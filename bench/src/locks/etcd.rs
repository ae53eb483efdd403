//! The etcd side of the comparison: one server with default settings, called through its JSON gateway. Each client has
//! its own lease and lock name. etcd persists a lock before it responds.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{Client, Service, quoted};
use crate::load::{Connection, Target};
use crate::process::{Server, free_address};

const START_MAX: Duration = Duration::from_secs(20);
const ASK_EVERY: Duration = Duration::from_millis(20);
/// Longer than any measurement, because leases are not renewed.
const LEASE_S: u64 = 24 * 60 * 60;

pub(super) struct Etcd {
    server: Server,
    target: Target,
    leases: Vec<String>,
}

pub(super) fn is_installed() -> bool {
    Command::new("etcd").arg("--version").output().is_ok_and(|output| output.status.success())
}

impl Etcd {
    pub(super) async fn start(dir: &Path, clients: usize) -> anyhow::Result<Self> {
        std::fs::create_dir_all(dir)?;
        let (address, peer) = (free_address()?, format!("http://{}", free_address()?));
        let url = format!("http://{address}");
        let log = dir.join("log");
        let mut command = Command::new("etcd");
        command.args(["--listen-client-urls", &url, "--advertise-client-urls", &url]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--name", "bench", "--initial-cluster", &format!("bench={peer}")]);
        command.args(["--logger", "zap", "--log-level", "error", "--log-outputs"]).arg(&log);
        command.arg("--data-dir").arg(dir.join("data")).stderr(Stdio::null());
        let mut server = Server::start(&mut command)?;
        let target = Target { address, token: String::new() };
        let mut connection = ready(&target, &mut server, &log).await?;
        let mut leases = Vec::new();
        for _ in 0..clients {
            let mut request = Vec::new();
            write_post(&mut request, &target, "/v3/lease/grant", &format!("{{\"TTL\":\"{LEASE_S}\"}}"));
            let (status, answer) = connection.ask(&request).await?;
            ensure!(status == 200, "etcd's lease: {status} {}", String::from_utf8_lossy(answer));
            leases.push(String::from_utf8(quoted(answer, "\"ID\":\"")?.to_vec())?);
        }
        Ok(Self { server, target, leases })
    }
}

/// Connects once the server reports that it has elected a leader.
async fn ready(target: &Target, server: &mut Server, log: &Path) -> anyhow::Result<Connection> {
    let deadline = Instant::now() + START_MAX;
    loop {
        if let Ok(mut connection) = Connection::open(target).await
            && let Ok((200, _)) = connection.get("/health").await
        {
            return Ok(connection);
        }
        let ended = server.child.try_wait()?;
        if ended.is_some() || Instant::now() > deadline {
            bail!("etcd did not start: {}", std::fs::read_to_string(log).unwrap_or_default());
        }
        tokio::time::sleep(ASK_EVERY).await;
    }
}

fn write_post(request: &mut Vec<u8>, target: &Target, path: &str, body: &str) {
    // Writing to a `Vec` cannot fail.
    let _ = write!(
        request,
        "POST {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        target.address,
        body.len()
    );
}

impl Service for Etcd {
    fn name(&self) -> &'static str {
        "etcd"
    }

    fn target(&self) -> Target {
        self.target.clone()
    }

    fn process_id(&self) -> u32 {
        self.server.id()
    }

    fn client(&self, number: usize) -> anyhow::Result<Box<dyn Client>> {
        let name = STANDARD.encode(format!("locks/e{number}"));
        let lease = self.leases.get(number).context("a client without a lease")?;
        let mut lock = Vec::new();
        let body = format!("{{\"name\":\"{name}\",\"lease\":\"{lease}\"}}");
        write_post(&mut lock, &self.target, "/v3/lock/lock", &body);
        Ok(Box::new(Locker { lock, target: self.target.clone(), body: String::new() }))
    }
}

struct Locker {
    lock: Vec<u8>,
    target: Target,
    body: String,
}

impl Client for Locker {
    fn acquire(&mut self, request: &mut Vec<u8>) {
        request.extend_from_slice(&self.lock);
    }

    fn release(&mut self, answer: &[u8], request: &mut Vec<u8>) -> anyhow::Result<()> {
        let key = str::from_utf8(quoted(answer, "\"key\":\"")?)?;
        self.body.clear();
        self.body.extend(["{\"key\":\"", key, "\"}"]);
        write_post(request, &self.target, "/v3/lock/unlock", &self.body);
        Ok(())
    }

    fn expects(&self) -> (u16, u16) {
        (200, 200)
    }
}
