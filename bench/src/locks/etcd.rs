//! The etcd side of the comparison: one server with default settings, called through its JSON gateway. Each client has
//! its own lease and lock name. etcd persists a lock before it responds.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{BenchLockClient, BenchLockService, extract_quoted};
use crate::load::{LoadConnection, ServerTarget};
use crate::process::{BenchServer, free_address};

const START_MAX: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Longer than any measurement, because leases are not renewed.
const LEASE_S: u64 = 24 * 60 * 60;

pub(super) struct EtcdService {
    server: BenchServer,
    target: ServerTarget,
    leases: Vec<String>,
}

pub(super) fn is_installed() -> bool {
    Command::new("etcd").arg("--version").output().is_ok_and(|output| output.status.success())
}

impl EtcdService {
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
        let mut server = BenchServer::start(&mut command)?;
        let target = ServerTarget { address, token: String::new() };
        let mut connection = connect_when_ready(&target, &mut server, &log).await?;
        let mut leases = Vec::new();
        for _ in 0..clients {
            let mut request = Vec::new();
            write_post(&mut request, &target, "/v3/lease/grant", &format!("{{\"TTL\":\"{LEASE_S}\"}}"));
            let (status, answer) = connection.send_request(&request).await?;
            ensure!(status == 200, "etcd's lease: {status} {}", String::from_utf8_lossy(answer));
            leases.push(String::from_utf8(extract_quoted(answer, "\"ID\":\"")?.to_vec())?);
        }
        Ok(Self { server, target, leases })
    }
}

/// Connects once the server reports that it has elected a leader.
async fn connect_when_ready(
    target: &ServerTarget,
    server: &mut BenchServer,
    log: &Path,
) -> anyhow::Result<LoadConnection> {
    let deadline = Instant::now() + START_MAX;
    loop {
        if let Ok(mut connection) = LoadConnection::open(target).await
            && let Ok((200, _)) = connection.get("/health").await
        {
            return Ok(connection);
        }
        let ended = server.child.try_wait()?;
        if ended.is_some() || Instant::now() > deadline {
            bail!("etcd did not start: {}", std::fs::read_to_string(log).unwrap_or_default());
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

fn write_post(request: &mut Vec<u8>, target: &ServerTarget, path: &str, body: &str) {
    // Writing to a `Vec` cannot fail.
    let _ = write!(
        request,
        "POST {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        target.address,
        body.len()
    );
}

impl BenchLockService for EtcdService {
    fn name(&self) -> &'static str {
        "etcd"
    }

    fn target(&self) -> ServerTarget {
        self.target.clone()
    }

    fn process_id(&self) -> u32 {
        self.server.id()
    }

    fn client(&self, number: usize) -> anyhow::Result<Box<dyn BenchLockClient>> {
        let name = STANDARD.encode(format!("locks/e{number}"));
        let lease = self.leases.get(number).context("a client without a lease")?;
        let mut lock = Vec::new();
        let body = format!("{{\"name\":\"{name}\",\"lease\":\"{lease}\"}}");
        write_post(&mut lock, &self.target, "/v3/lock/lock", &body);
        Ok(Box::new(EtcdLockClient { lock, target: self.target.clone(), body: String::new() }))
    }
}

struct EtcdLockClient {
    lock: Vec<u8>,
    target: ServerTarget,
    body: String,
}

impl BenchLockClient for EtcdLockClient {
    fn acquire(&mut self, request: &mut Vec<u8>) {
        request.extend_from_slice(&self.lock);
    }

    fn release(&mut self, answer: &[u8], request: &mut Vec<u8>) -> anyhow::Result<()> {
        let key = str::from_utf8(extract_quoted(answer, "\"key\":\"")?)?;
        self.body.clear();
        self.body.extend(["{\"key\":\"", key, "\"}"]);
        write_post(request, &self.target, "/v3/lock/unlock", &self.body);
        Ok(())
    }

    fn expected_statuses(&self) -> (u16, u16) {
        (200, 200)
    }
}
