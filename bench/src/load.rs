//! Load generator with a minimal HTTP/1.1 client. Each keep-alive connection sends its requests one at a time.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(60);

#[derive(Clone)]
pub(crate) struct ServerTarget {
    pub(crate) address: SocketAddr,
    pub(crate) token: String,
}

/// Returns the path of the next request.
pub(crate) type NextPath = Arc<dyn Fn(&mut BenchRandom) -> String + Send + Sync>;

/// The result of one round of one case.
pub(crate) struct LoadRound {
    /// Latencies of responses with status 200.
    pub(crate) latencies: Vec<Duration>,
    pub(crate) failed: usize,
    pub(crate) took: Duration,
}

impl LoadRound {
    pub(crate) fn per_second(&self) -> f64 {
        self.latencies.len() as f64 / self.took.as_secs_f64()
    }
}

/// Sends requests for the duration `length`. Requests in flight at the end are completed and counted.
pub(crate) async fn run_round(
    target: &ServerTarget,
    next: &NextPath,
    clients: usize,
    length: Duration,
    seed: u64,
) -> anyhow::Result<LoadRound> {
    let mut connections = Vec::with_capacity(clients);
    for _ in 0..clients {
        connections.push(LoadConnection::open(target).await?);
    }
    let start = Instant::now();
    let clients: Vec<_> = (seed..)
        .zip(connections)
        .map(|(seed, connection)| tokio::spawn(run_client(connection, next.clone(), start + length, seed)))
        .collect();
    let mut sum = LoadRound { latencies: Vec::new(), failed: 0, took: Duration::ZERO };
    for client in clients {
        let (latencies, failed) = client.await??;
        sum.latencies.extend(latencies);
        sum.failed += failed;
    }
    sum.took = start.elapsed();
    Ok(sum)
}

async fn run_client(
    mut connection: LoadConnection,
    next: NextPath,
    until: Instant,
    seed: u64,
) -> anyhow::Result<(Vec<Duration>, usize)> {
    let mut random = BenchRandom::new(seed);
    let (mut latencies, mut failed) = (Vec::new(), 0);
    while Instant::now() < until {
        let path = next(&mut random);
        let sent = Instant::now();
        match connection.get(&path).await?.0 {
            200 => latencies.push(sent.elapsed()),
            _ => failed += 1,
        }
    }
    Ok((latencies, failed))
}

pub(crate) struct LoadConnection {
    stream: TcpStream,
    /// Header lines that are part of every request.
    lines: String,
    request: String,
    answer: Vec<u8>,
}

impl LoadConnection {
    pub(crate) async fn open(target: &ServerTarget) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(target.address).await.context("cannot connect to the server")?;
        stream.set_nodelay(true)?;
        let lines = format!(
            " HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\n\r\n",
            target.address, target.token
        );
        Ok(Self { stream, lines, request: String::new(), answer: Vec::with_capacity(64 * 1024) })
    }

    /// Sends a GET request and returns the status and the body.
    pub(crate) async fn get(&mut self, path: &str) -> anyhow::Result<(u16, &[u8])> {
        let mut request = std::mem::take(&mut self.request);
        request.clear();
        request.extend(["GET ", path, &self.lines]);
        let asked = tokio::time::timeout(ANSWER_WAIT_MAX, self.exchange(request.as_bytes())).await;
        self.request = request;
        let (status, start) = asked
            .with_context(|| format!("no answer in {ANSWER_WAIT_MAX:?}: {path}"))?
            .with_context(|| format!("GET {path}"))?;
        Ok((status, &self.answer[start..]))
    }

    /// Sends a raw request and returns the status and the body. There is no timeout, because a timer per request would
    /// distort the measurement.
    pub(crate) async fn send_request(&mut self, request: &[u8]) -> anyhow::Result<(u16, &[u8])> {
        let (status, start) = self.exchange(request).await?;
        Ok((status, &self.answer[start..]))
    }

    /// Returns the status and the offset of the body.
    async fn exchange(&mut self, request: &[u8]) -> anyhow::Result<(u16, usize)> {
        self.stream.write_all(request).await?;
        self.answer.clear();
        let head_bytes = loop {
            self.read_some().await?;
            if let Some(end) = self.answer.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
        };
        let (status, body_bytes) = read_head(&self.answer[..head_bytes])?;
        ensure!(body_bytes <= ANSWER_BYTES_MAX, "an answer of {body_bytes} bytes");
        while self.answer.len() < head_bytes + body_bytes {
            self.read_some().await?;
        }
        Ok((status, head_bytes))
    }

    async fn read_some(&mut self) -> anyhow::Result<()> {
        match self.stream.read_buf(&mut self.answer).await? {
            0 => bail!("the server closed the connection"),
            _ => Ok(()),
        }
    }
}

/// Parses status and body length.
fn read_head(head: &[u8]) -> anyhow::Result<(u16, usize)> {
    let head = str::from_utf8(head).context("headers are not text")?;
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).context("no status line")?;
    let length = lines
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .context("an answer without content-length")?;
    Ok((status.parse()?, length.1.trim().parse()?))
}

/// Deterministic pseudo-random numbers (splitmix64).
pub(crate) struct BenchRandom(u64);

impl BenchRandom {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
        usize::try_from((u128::from(bits) * end as u128) >> 64).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn response_head_is_parsed() {
        let head = b"HTTP/1.1 404 Not Found\r\nContent-Length: 12\r\nx: y\r\n\r\n";
        assert_eq!(read_head(head).unwrap(), (404, 12));
        assert!(read_head(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
    }

    #[test]
    fn random_numbers_cover_the_range() {
        let mut random = BenchRandom::new(7);
        let numbers: Vec<_> = (0..1_000).map(|_| random.below(100)).collect();
        assert!(numbers.iter().all(|number| *number < 100));
        assert!(numbers.contains(&0) && numbers.contains(&99));
    }
}
