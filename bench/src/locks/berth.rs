//! The Berth side of the comparison.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use super::{BenchLockClient, BenchLockService, ClientRounds, extract_quoted};
use crate::bench_server::{self, PIPELINES};
use crate::load::{LoadConnection, ServerTarget};
use crate::process::BenchServer;

const DEFINITION: &str = include_str!("../pipeline.yaml");

pub(super) struct BerthService {
    server: BenchServer,
    target: ServerTarget,
}

impl BerthService {
    /// Starts a server with one environment per client.
    pub(super) async fn start(dir: &Path, clients: usize) -> anyhow::Result<Self> {
        let (server, target) = bench_server::start(dir, &[])?;
        create_pipeline(&target, clients).await?;
        Ok(Self { server, target })
    }

    /// Creates an installation in this database with one environment per client, and returns the owner's token.
    pub(super) async fn prepare(dir: &Path, url: &str, clients: usize) -> anyhow::Result<String> {
        let token = bench_server::init(dir, &["--database", url])?;
        let served = Self::serve(dir, url, &token)?;
        create_pipeline(&served.target, clients).await?;
        Ok(token)
    }

    pub(super) fn serve(dir: &Path, url: &str, token: &str) -> anyhow::Result<Self> {
        let (server, target) = bench_server::serve(dir, &["--database", url, "--no-runner"], token)?;
        Ok(Self { server, target })
    }

    /// Checks that every counted pair of claim and release really happened, by comparing it with the environment's
    /// fence, which is the number of claims so far.
    pub(super) async fn check_history(&self, rows: &[ClientRounds]) -> anyhow::Result<()> {
        let counted: usize = rows.iter().flat_map(|row| &row.berth).map(|round| round.latencies.len()).sum();
        let mut connection = LoadConnection::open(&self.target).await?;
        let list = format!("{PIPELINES}/locks/ephemeral-environments");
        let (status, body) = connection.get(&list).await?;
        ensure!(status == 200, "{list} returned {status}: {}", String::from_utf8_lossy(body));
        let list: Value = serde_json::from_slice(body)?;
        let environments = list["data"].as_array().context("a list without environments")?;
        let claims: u64 = environments.iter().filter_map(|environment| environment["fence"].as_u64()).sum();
        ensure!(claims == counted as u64, "{counted} pairs were counted, {claims} claims have happened");
        Ok(())
    }
}

async fn create_pipeline(target: &ServerTarget, environments: usize) -> anyhow::Result<()> {
    let environments: String = (0..environments).map(|number| format!("    e{number}: {{}}\n")).collect();
    let (head, _) = DEFINITION.split_once("    qa-1").context("the definition has other environments")?;
    let body = json!({ "slug": "locks", "definition": format!("{head}{environments}") }).to_string();
    let mut request = Vec::new();
    write!(request, "POST {PIPELINES} HTTP/1.1\r\n{}", header_lines(target))?;
    write!(request, "content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len())?;
    let mut connection = LoadConnection::open(target).await?;
    let (status, answer) = connection.send_request(&request).await?;
    ensure!(status == 201, "the pipeline returned {status}: {}", String::from_utf8_lossy(answer));
    Ok(())
}

fn header_lines(ServerTarget { address, token }: &ServerTarget) -> String {
    format!("host: {address}\r\nauthorization: Bearer {token}\r\n")
}

impl BenchLockService for BerthService {
    fn name(&self) -> &'static str {
        "Berth"
    }

    fn target(&self) -> ServerTarget {
        self.target.clone()
    }

    fn process_id(&self) -> u32 {
        self.server.id()
    }

    fn client(&self, number: usize) -> anyhow::Result<Box<dyn BenchLockClient>> {
        let environment = format!("{PIPELINES}/locks/ephemeral-environments/e{number}/sessions");
        let lines = header_lines(&self.target);
        Ok(Box::new(BerthLockClient {
            claim: format!(
                "POST {environment} HTTP/1.1\r\n{lines}content-type: application/json\r\ncontent-length: 2\r\n\
                 idempotency-key: "
            ),
            release: format!("DELETE {environment}/"),
            lines: format!(" HTTP/1.1\r\n{lines}\r\n"),
            key: first_key(self.target.address, number)?,
        }))
    }
}

/// Returns the first idempotency key for a client. No other client or round uses this key or the ones that follow it.
fn first_key(address: SocketAddr, number: usize) -> anyhow::Result<u128> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_nanos();
    Ok((now << 24) | ((number as u128) << 16) | u128::from(address.port() & 0xff))
}

struct BerthLockClient {
    claim: String,
    release: String,
    lines: String,
    key: u128,
}

impl BenchLockClient for BerthLockClient {
    fn acquire(&mut self, request: &mut Vec<u8>) {
        self.key += 1 << 24;
        request.extend_from_slice(self.claim.as_bytes());
        // Writing to a `Vec` cannot fail.
        let _ = write!(request, "{:x}\r\n\r\n{{}}", self.key);
    }

    fn release(&mut self, answer: &[u8], request: &mut Vec<u8>) -> anyhow::Result<()> {
        request.extend_from_slice(self.release.as_bytes());
        request.extend_from_slice(extract_quoted(answer, "\"sessionId\":\"")?);
        request.extend_from_slice(self.lines.as_bytes());
        Ok(())
    }

    fn expected_statuses(&self) -> (u16, u16) {
        (201, 200)
    }
}
