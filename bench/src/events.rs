//! `events`: measures the cost and latency of event streams, and how long it takes to seal and verify an audit log.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail, ensure};
use berth_core::event::{EventKind, EventSubject, NewEvent};
use berth_core::id::OrgId;
use berth_core::name::{Email, Slug};
use berth_engine::vault::{SecretVault, WhenMissing};
use berth_server::app::App;
use berth_server::auth::passwords::PasswordCost;
use berth_server::config::AppConfig;
use berth_server::setup::create_organization;
use berth_store::audit::{self, AuditHead, StoredCheck};
use berth_store::data_dir::DataDir;
use berth_store::{Store, StoreError, TxContext, tables};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use crate::report::{format_millis, format_rate, group_digits};
use crate::site::{serve_on_a_thread, to_anyhow};

pub(crate) const USAGE: &str = "\
usage: cargo xtask bench events [options]

  --followers N  streams over loopback [default: 1000]
  --tokens N     tokens they share [default: 20]
  --seconds N    how long events are written at a steady rate [default: 5]
  --per-second N events per second [default: 20]
  --history N    events to seal and verify [default: 100000]
";

const WRITERS: usize = 16;
const PER_TRANSACTION: i64 = 1_000;

struct EventOptions {
    followers: usize,
    tokens: usize,
    seconds: u64,
    per_second: u64,
    history: i64,
}

fn parse_options(args: &[String]) -> anyhow::Result<EventOptions> {
    let mut found =
        EventOptions { followers: 1_000, tokens: 20, seconds: 5, per_second: 20, history: 100_000 };
    let mut args = args.iter();
    while let Some(name) = args.next() {
        let value: u64 = args
            .next()
            .and_then(|text| text.replace('_', "").parse().ok())
            .with_context(|| format!("{name} needs a whole number\n\n{USAGE}"))?;
        match name.as_str() {
            "--followers" => found.followers = usize::try_from(value)?,
            "--tokens" => found.tokens = usize::try_from(value)?,
            "--seconds" => found.seconds = value,
            "--per-second" => found.per_second = value,
            "--history" => found.history = i64::try_from(value)?,
            other => bail!("unknown option {other}\n\n{USAGE}"),
        }
    }
    ensure!(found.tokens >= 1 && found.per_second >= 1, "--tokens and --per-second must be at least 1");
    Ok(found)
}

pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    let options = parse_options(args)?;
    let temp = tempfile::Builder::new().prefix("berth-bench-").tempdir()?;
    let dir = DataDir::open(&temp.path().join("data"))?;
    let store = Store::open_sqlite(&dir.database())?;
    let made = |slug: &str| {
        let email = Email::parse(&format!("ada@{slug}.test"))?;
        create_organization(&store, Slug::parse(slug)?, email, PasswordCost::default()).map_err(to_anyhow)
    };
    seal_and_check(&store, made("history")?.org.id, options.history)?;
    let created = made("acme")?;
    let org = created.org.id;

    let vault = SecretVault::open(&store, &dir.path().join("root.key"), WhenMissing::Create)?;
    let config = AppConfig {
        data_dir: dir.path().to_owned(),
        rate_limit: false,
        // Raise the limit of streams per token, because all followers use one token and the limit is not measured here.
        streams_per_token_max: options.followers.max(100),
        ..AppConfig::local(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
    };
    let app = Arc::new(App::new(store, vault, config, CancellationToken::new()));
    let (thread, address) = serve_on_a_thread(app.clone())?;
    // All followers share one thread, like the clients of the other benchmarks.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(measure(&options, &app, address, org, created.token.reveal()));
    app.services().shutdown.cancel();
    let _ = thread.join();
    outcome
}

fn seal_and_check(store: &Store, org: OrgId, count: i64) -> anyhow::Result<()> {
    let start = Instant::now();
    for first in (0..count).step_by(usize::try_from(PER_TRANSACTION)?) {
        let numbers = first..count.min(first + PER_TRANSACTION);
        store.transact_blocking(TxContext::system(Some(org)), move |tx| {
            for number in numbers {
                tx.record(sample_event(number))?;
            }
            Ok::<_, StoreError>(())
        })?;
    }
    let sealed = start.elapsed();
    let hashing = measure_sealing(store, org, count)?;
    let start = Instant::now();
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let verdict = runtime.block_on(async {
        let mut check = store.read(Some(org), |db| StoredCheck::begin(db, None)).await?;
        loop {
            let (next, more) = store
                .read(Some(org), move |db| {
                    let more = check.verify_page(db)?;
                    Ok::<_, StoreError>((check, more))
                })
                .await?;
            check = next;
            if !more {
                return Ok::<_, StoreError>(check.finish());
            }
        }
    })?;
    ensure!(verdict.problem.is_none(), "the audit log is not valid: {:?}", verdict.problem);
    let events = group_digits(usize::try_from(verdict.checked)?);
    println!(
        "{events} events: recorded and sealed in {:.2} s (of which sealing {:.2} s), verified in {:.2} s.\n",
        sealed.as_secs_f64(),
        hashing.as_secs_f64(),
        start.elapsed().as_secs_f64()
    );
    Ok(())
}

/// Seals the same events again in memory, to measure how much of the sealing time is spent on the hash chain.
fn measure_sealing(store: &Store, org: OrgId, count: i64) -> anyhow::Result<Duration> {
    let mut events = store.transact_blocking(TxContext::system(Some(org)), move |tx| {
        tables::event::list_after(tx, 0, i64::MAX, count)
    })?;
    let start = Instant::now();
    audit::seal_events(AuditHead::start(), &mut events)?;
    Ok(start.elapsed())
}

fn sample_event(number: i64) -> NewEvent {
    let subject = EventSubject::new("pipeline", format!("pl_{number:026}"), Some("shop"));
    NewEvent::new(EventKind::PipelineStopped, subject).with("reason", "measured").with("number", number)
}

async fn measure(
    options: &EventOptions,
    app: &Arc<App>,
    address: SocketAddr,
    org: OrgId,
    token: &str,
) -> anyhow::Result<()> {
    let alone = writes_per_second(app, org).await?;
    let tokens = create_tokens(options.tokens, address, token).await?;
    let before = resident_kib()?;
    let (hear, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let (ready, mut readied) = tokio::sync::mpsc::unbounded_channel();
    for number in 0..options.followers {
        let token = tokens[number % tokens.len()].clone();
        tokio::spawn(follow(address, token, hear.clone(), ready.clone()));
        // Open the connections in small groups, because the backlog of a listening socket is short.
        if number % 50 == 49 {
            for _ in 0..50 {
                readied.recv().await.context("a follower")?;
            }
        }
    }
    let after = resident_kib()?;

    let count = options.seconds * options.per_second;
    let mut committed = HashMap::new();
    for number in 0..count {
        record(app, org, i64::try_from(number)?).await?;
        let at = Instant::now();
        committed.insert(last_sequence(app, org).await?, at);
        tokio::time::sleep(Duration::from_secs(1) / u32::try_from(options.per_second)?).await;
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut delays = Vec::new();
    while let Ok((sequence, at)) = heard.try_recv() {
        if let Some(then) = committed.get(&sequence) {
            delays.push(Instant::duration_since(&at, *then));
        }
    }
    delays.sort_unstable();
    let wanted = usize::try_from(count)? * options.followers;
    ensure!(delays.len() == wanted, "{} of {wanted} deliveries were heard", delays.len());
    let followed = writes_per_second(app, org).await?;
    let last = resident_kib()?;

    println!(
        "{} followers, {} tokens, {} events at {} a second; clients and server share this machine.\n",
        group_digits(options.followers),
        options.tokens,
        count,
        options.per_second
    );
    println!("| measure | |\n|---|--:|");
    println!("| commit to receipt, p50 | {} ms |", format_millis(&delays, 50));
    println!("| commit to receipt, p99 | {} ms |", format_millis(&delays, 99));
    println!("| commit to receipt, slowest | {} ms |", format_millis(&delays, 100));
    let each = |kib: u64| format!("{:.0} KiB", kib as f64 / options.followers.max(1) as f64);
    println!("| memory per follower, both ends, quiet | {} |", each(after.saturating_sub(before)));
    println!("| memory per follower, both ends, at the end | {} |", each(last.saturating_sub(before)));
    println!("| writes/s, no followers | {} |", format_rate(alone));
    println!("| writes/s, all followers | {} |", format_rate(followed));
    Ok(())
}

async fn record(app: &App, org: OrgId, number: i64) -> anyhow::Result<()> {
    let recorded =
        app.store().transact(TxContext::system(Some(org)), move |tx| tx.record(sample_event(number)));
    Ok(recorded.await?)
}

/// Returns the sequence number of the last committed event.
async fn last_sequence(app: &App, org: OrgId) -> Result<i64, StoreError> {
    app.store().read(Some(org), |db| Ok(tables::event::chain_head(db)?.sequence)).await
}

async fn writes_per_second(app: &Arc<App>, org: OrgId) -> anyhow::Result<f64> {
    const LENGTH: Duration = Duration::from_secs(3);
    let start = Instant::now();
    let writers: Vec<_> = (0..WRITERS)
        .map(|_| {
            let app = app.clone();
            tokio::spawn(async move {
                let mut count = 0;
                while start.elapsed() < LENGTH {
                    record(&app, org, count).await?;
                    count += 1;
                }
                Ok::<_, anyhow::Error>(count)
            })
        })
        .collect();
    let mut sum = 0;
    for writer in writers {
        sum += writer.await??;
    }
    Ok(sum as f64 / start.elapsed().as_secs_f64())
}

async fn create_tokens(count: usize, address: SocketAddr, token: &str) -> anyhow::Result<Vec<String>> {
    let mut tokens = Vec::new();
    for number in 0..count {
        let body = format!("{{\"name\": \"follower {number}\"}}");
        let request = format!(
            "POST /api/v1/organizations/acme/api-tokens HTTP/1.1\r\nhost: berth\r\nauthorization: Bearer {token}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        let made = answer
            .split_once("\r\n\r\n")
            .and_then(|(_, body)| serde_json::from_str::<serde_json::Value>(body).ok());
        let made = made.as_ref().and_then(|made| made.pointer("/data/token")?.as_str().map(str::to_owned));
        tokens.push(made.ok_or_else(|| anyhow!("no token: {answer}"))?);
    }
    Ok(tokens)
}

/// Reads a stream to its end and reports when each event arrived.
async fn follow(
    address: SocketAddr,
    token: String,
    arrivals: tokio::sync::mpsc::UnboundedSender<(i64, Instant)>,
    ready: tokio::sync::mpsc::UnboundedSender<()>,
) -> anyhow::Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!(
        "GET /api/v1/organizations/acme/events HTTP/1.1\r\nhost: berth\r\nauthorization: Bearer {token}\r\n\
         accept: text/event-stream\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await?;
    let (mut lines, mut line) = (BufReader::with_capacity(4 * 1024, stream), String::new());
    let mut is_first = true;
    loop {
        line.clear();
        if lines.read_line(&mut line).await? == 0 {
            return Ok(());
        }
        if let Some(sequence) = line.trim_end().strip_prefix("id: ").and_then(|id| id.parse().ok()) {
            if is_first {
                is_first = false;
                let _ = ready.send(());
            } else {
                let _ = arrivals.send((sequence, Instant::now()));
            }
        }
    }
}

fn resident_kib() -> anyhow::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}
