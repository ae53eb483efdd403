//! `idle`: measures start-up time and memory of an idle server.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::json;

use crate::bench_server::{self, JsonApiClient, PIPELINES};
use crate::process::{BenchServer, anonymous_memory, free_address, resident_memory, stop_server};
use crate::report::describe_machine;

pub(crate) const USAGE: &str = "\
bench idle [--starts N] [--check]
  Start-up time on an existing database, from exec to the first response of /readyz, and the memory
  of a server ten seconds later. --check fails above 100 ms (median) or 48 MB.
";

const START_MAX: Duration = Duration::from_millis(100);
const MEMORY_BYTES_MAX: u64 = 48_000_000;
const STARTS: usize = 15;
/// A start that takes longer than this has failed.
const PATIENCE: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_micros(200);
const IDLE: Duration = Duration::from_secs(10);
/// Claims made before the measurement, so that the database is not empty.
const CLAIMS: usize = 200;
const DEFINITION: &str = include_str!("pipeline.yaml");

pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    let mut starts = STARTS;
    let mut is_checked = false;
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        match arg.as_str() {
            "--check" => is_checked = true,
            "--starts" => starts = rest.next().context("--starts needs a number")?.parse()?,
            other => anyhow::bail!("unknown option {other}\n\n{USAGE}"),
        }
    }
    ensure!(starts > 0, "--starts needs a number above 0");
    let dir = tempfile::tempdir()?;
    let rows = fill_database(dir.path())?;
    let mut took: Vec<Duration> =
        (0..starts).map(|_| measure_start(dir.path())).collect::<anyhow::Result<_>>()?;
    took.sort_unstable();
    let (resident, anonymous) = measure_idle_memory(dir.path())?;
    let millis = |at: usize| took[at].as_secs_f64() * 1_000.0;
    let median = took[starts / 2];
    println!("{starts} starts on a database with {rows} events, on {}.\n", describe_machine());
    println!("| | measured | limit |\n|---|--:|--:|");
    println!(
        "| from exec to the first response of /readyz, median (fastest to slowest) | {:.1} ms ({:.1} to {:.1}) | {} ms |",
        millis(starts / 2),
        millis(0),
        millis(starts - 1),
        START_MAX.as_millis()
    );
    println!(
        "| resident memory {} s later, with the dashboard | {:.1} MB | {} MB |",
        IDLE.as_secs(),
        resident as f64 / 1e6,
        MEMORY_BYTES_MAX / 1_000_000
    );
    println!("| of it, not mapped from files such as the program | {:.1} MB | |", anonymous as f64 / 1e6);
    if is_checked {
        ensure!(median <= START_MAX, "a start takes {median:?}, limit {START_MAX:?}");
        ensure!(resident <= MEMORY_BYTES_MAX, "{resident} bytes are resident, limit {MEMORY_BYTES_MAX}");
    }
    Ok(())
}

/// Creates a pipeline, claims and releases its environment, and returns the number of events.
fn fill_database(dir: &Path) -> anyhow::Result<i64> {
    let (mut server, target) = bench_server::start(dir, &["--no-runner"])?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let events = runtime.block_on(async {
        let mut api = JsonApiClient::open(&target).await?;
        api.post(PIPELINES, &json!({ "slug": "shop", "definition": DEFINITION })).await?;
        let environments = api.get(&format!("{PIPELINES}/shop/ephemeral-environments")).await?;
        let name = environments[0]["envName"].as_str().context("no environment")?.to_owned();
        let sessions = format!("{PIPELINES}/shop/ephemeral-environments/{name}/sessions");
        for _ in 0..CLAIMS {
            let session = api.post(&sessions, &json!({ "deploy": false })).await?;
            let id = session["sessionId"].as_str().context("no session")?.to_owned();
            api.delete(&format!("{sessions}/{id}")).await?;
        }
        let newest = api.get(&format!("{}/events?limit=1", bench_server::ORGANIZATION)).await?;
        newest[0]["sequence"].as_i64().context("no event")
    })?;
    stop_server(&mut server)?;
    Ok(events)
}

fn measure_start(dir: &Path) -> anyhow::Result<Duration> {
    let (mut server, took) = start_and_wait(dir)?;
    stop_server(&mut server)?;
    Ok(took)
}

/// Starts the server with its runner, loads the dashboard once, and returns how much memory of the idle server is
/// resident, and how much of that is anonymous.
fn measure_idle_memory(dir: &Path) -> anyhow::Result<(u64, u64)> {
    let address = free_address()?;
    let server = bench_server::serve_at(dir, address)?;
    wait_until_ready(address, Instant::now())?;
    for path in ["/", "/api/v1/openapi.json", "/docs"] {
        ensure!(responds_ok(address, path)?, "{path} is not there");
    }
    std::thread::sleep(IDLE);
    Ok((resident_memory(server.id())?, anonymous_memory(server.id())?))
}

fn start_and_wait(dir: &Path) -> anyhow::Result<(BenchServer, Duration)> {
    let address = free_address()?;
    let began = Instant::now();
    let server = bench_server::serve_at(dir, address)?;
    Ok((server, wait_until_ready(address, began)?))
}

fn wait_until_ready(address: SocketAddr, began: Instant) -> anyhow::Result<Duration> {
    loop {
        if responds_ok(address, "/readyz").unwrap_or(false) {
            return Ok(began.elapsed());
        }
        ensure!(began.elapsed() < PATIENCE, "the server does not respond");
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Sends a GET request and returns whether the response has status 200.
fn responds_ok(address: SocketAddr, path: &str) -> anyhow::Result<bool> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(answer.starts_with(b"HTTP/1.1 200"))
}
