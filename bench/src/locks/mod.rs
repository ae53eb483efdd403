//! `locks`: measures claim and release over HTTP, compared with etcd's lock service.
//!
//! Both servers are separate processes on this machine, have their data on the same disk and serve the same number of
//! clients. Each client claims and releases its own environment in a loop. A *pair* is one claim and one release, both
//! persisted before the response. Each round measures both servers in turn; only ratios within a round are compared.

mod berth;
mod etcd;
mod postgres;
mod replay;
mod report;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};

use crate::load::{LoadConnection, ServerTarget};
use crate::process;
use berth::BerthService;
use etcd::EtcdService;

pub(crate) const USAGE: &str = "\
usage: cargo xtask bench locks [options]

  --clients N,N,…  concurrent connections; the first number counts [default: 64,16,1]
  --rounds N       rounds; each side is measured once in each [default: 5]
  --seconds N      measured time of each side in each round [default: 2]
  --short          the same as --seconds 0.4
  --dir DIR        where to put the data [default: the system's temporary directory]
  --database D     postgres: its own PostgreSQL, compared with the same statements without Berth [default clients: 16]
  --check          fail unless Berth does 4 times as many pairs as etcd, with a third of its p99;
                   with PostgreSQL: 0.6 of the rate of the statements alone
";

const CLIENTS_MAX: usize = 200;
/// A round that exceeds its planned length by this much has hung.
const HANGS_AFTER: Duration = Duration::from_secs(60);

struct LockOptions {
    clients: Vec<usize>,
    rounds: usize,
    length: Duration,
    dir: PathBuf,
    check: bool,
    postgres: bool,
}

fn parse_options(args: &[String]) -> anyhow::Result<LockOptions> {
    let (mut clients, mut rounds, mut seconds) = (vec![64, 16, 1], 5, 2.0f64);
    let (mut dir, mut check, mut postgres) = (std::env::temp_dir(), false, false);
    let mut args = args.iter();
    while let Some(name) = args.next() {
        let mut value = || args.next().with_context(|| format!("{name} needs a value\n\n{USAGE}"));
        match name.as_str() {
            "--clients" => {
                let numbers = value()?.split(',').map(str::parse).collect::<Result<_, _>>();
                clients = numbers.context("--clients must be whole numbers")?;
            }
            "--rounds" => rounds = value()?.parse().context("--rounds must be a whole number")?,
            "--seconds" => seconds = value()?.parse().context("--seconds must be a number")?,
            "--short" => seconds = 0.4,
            "--dir" => dir = value()?.into(),
            "--database" => match value()?.as_str() {
                "postgres" => (postgres, clients) = (true, vec![16]),
                "sqlite" => postgres = false,
                other => bail!("--database must be sqlite or postgres, not {other}"),
            },
            "--check" => check = true,
            other => bail!("unknown option {other}\n\n{USAGE}"),
        }
    }
    ensure!(clients.iter().all(|count| (1..=CLIENTS_MAX).contains(count)), "--clients: 1 to {CLIENTS_MAX}");
    ensure!((1..=100).contains(&rounds), "--rounds must be 1 to 100");
    ensure!((0.1..=600.0).contains(&seconds), "--seconds must be 0.1 to 600");
    Ok(LockOptions { clients, rounds, length: Duration::from_secs_f64(seconds), dir, check, postgres })
}

/// One side of the comparison: a running server and its clients.
trait BenchLockService {
    fn name(&self) -> &'static str;

    fn target(&self) -> ServerTarget;

    fn process_id(&self) -> u32;

    /// Returns the client with this number. Each client has its own lock.
    fn client(&self, number: usize) -> anyhow::Result<Box<dyn BenchLockClient>>;
}

/// Writes requests and parses responses. Constant parts of the requests are prepared in advance.
trait BenchLockClient {
    fn acquire(&mut self, request: &mut Vec<u8>);

    /// Writes the release request. `answer` is the response to `acquire`.
    fn release(&mut self, answer: &[u8], request: &mut Vec<u8>) -> anyhow::Result<()>;

    /// Returns the expected status codes of the responses to acquire and release.
    fn expected_statuses(&self) -> (u16, u16);
}

/// The result of one round for one server.
struct LockRound {
    /// Latency of each pair, sorted.
    latencies: Vec<Duration>,
    took: Duration,
    /// CPU time that the server used.
    cpu: Duration,
}

impl LockRound {
    fn per_second(&self) -> f64 {
        self.latencies.len() as f64 / self.took.as_secs_f64()
    }
}

/// All rounds that were run with the same number of clients.
struct ClientRounds {
    clients: usize,
    berth: Vec<LockRound>,
    /// Empty if etcd is not installed.
    etcd: Vec<LockRound>,
}

pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    let options = parse_options(args)?;
    let temp = tempfile::Builder::new().prefix("berth-bench-").tempdir_in(&options.dir)?;
    if options.postgres {
        return postgres::run(&options, temp.path());
    }
    let most = options.clients.iter().copied().max().unwrap_or(1);
    // All clients share one thread, to leave the other cores to the servers.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let berth = runtime.block_on(BerthService::start(&temp.path().join("berth"), most))?;
    let etcd = match etcd::is_installed() {
        true => Some(runtime.block_on(EtcdService::start(&temp.path().join("etcd"), most))?),
        false => None,
    };
    let rows = runtime.block_on(measure(&options, &berth, etcd.as_ref()))?;
    runtime.block_on(berth.check_history(&rows))?;
    print!("{}", report::render(options.rounds, options.length, &rows));
    if options.check { report::check(&rows) } else { Ok(()) }
}

async fn measure(
    options: &LockOptions,
    berth: &BerthService,
    etcd: Option<&EtcdService>,
) -> anyhow::Result<Vec<ClientRounds>> {
    let empty = |clients: &usize| ClientRounds { clients: *clients, berth: Vec::new(), etcd: Vec::new() };
    let mut rows: Vec<_> = options.clients.iter().map(empty).collect();
    for number in 0..options.rounds {
        eprintln!("round {} of {}", number + 1, options.rounds);
        for row in &mut rows {
            row.berth.push(run_round(berth, row.clients, options.length).await?);
            if let Some(etcd) = etcd {
                row.etcd.push(run_round(etcd, row.clients, options.length).await?);
            }
        }
    }
    Ok(rows)
}

/// Runs all clients for the duration `length`. Requests in flight at the end are completed and counted.
async fn run_round(
    service: &impl BenchLockService,
    clients: usize,
    length: Duration,
) -> anyhow::Result<LockRound> {
    let mut ready = Vec::with_capacity(clients);
    for number in 0..clients {
        ready.push((LoadConnection::open(&service.target()).await?, service.client(number)?));
    }
    let (cpu, start) = (process::cpu_time(service.process_id())?, Instant::now());
    let local = tokio::task::LocalSet::new();
    let tasks: Vec<_> = ready
        .into_iter()
        .map(|(connection, client)| local.spawn_local(run_pairs(connection, client, start + length)))
        .collect();
    let all = async {
        let mut latencies = Vec::new();
        for task in tasks {
            latencies.extend(task.await??);
        }
        Ok::<_, anyhow::Error>(latencies)
    };
    let all = local.run_until(tokio::time::timeout(length + HANGS_AFTER, all)).await;
    let mut latencies = all.with_context(|| format!("{} hangs", service.name()))?.context(service.name())?;
    let took = start.elapsed();
    latencies.sort_unstable();
    Ok(LockRound { latencies, took, cpu: process::cpu_time(service.process_id())?.saturating_sub(cpu) })
}

async fn run_pairs(
    mut connection: LoadConnection,
    mut client: Box<dyn BenchLockClient>,
    until: Instant,
) -> anyhow::Result<Vec<Duration>> {
    let (mut latencies, mut request) = (Vec::new(), Vec::with_capacity(1024));
    let expected = client.expected_statuses();
    let mut sent = Instant::now();
    while sent < until {
        request.clear();
        client.acquire(&mut request);
        let (status, answer) = connection.send_request(&request).await?;
        ensure!(status == expected.0, "acquire: {status} {}", String::from_utf8_lossy(answer));
        request.clear();
        client.release(answer, &mut request)?;
        let (status, answer) = connection.send_request(&request).await?;
        ensure!(status == expected.1, "release: {status} {}", String::from_utf8_lossy(answer));
        let answered = Instant::now();
        latencies.push(answered - sent);
        sent = answered;
    }
    Ok(latencies)
}

/// Returns the text after `before`, up to the next quotation mark.
fn extract_quoted<'a>(answer: &'a [u8], before: &str) -> anyhow::Result<&'a [u8]> {
    let start = answer.windows(before.len()).position(|part| part == before.as_bytes());
    let rest = start.map(|start| &answer[start + before.len()..]);
    let end = rest.and_then(|rest| rest.iter().position(|byte| *byte == b'"'));
    match (rest, end) {
        (Some(rest), Some(end)) => Ok(&rest[..end]),
        _ => bail!("no {before} in {}", String::from_utf8_lossy(answer)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_value_is_extracted_from_response() {
        let answer = br#"{"data":{"id":"ses_1","sessionId":"ses_1","fence":7}}"#;
        assert_eq!(extract_quoted(answer, "\"sessionId\":\"").unwrap(), b"ses_1");
        assert!(extract_quoted(answer, "\"key\":\"").is_err());
    }
}
