//! `many`: measures the cost of claims while there are many held sessions, idle runners, and steps that no runner can
//! take.
//!
//! The runners are clients of the runner protocol that never get work: they register, send hello and long-poll, each on
//! its own connection. First sessions are added, then runners, then steps, and the same claims are measured after each
//! addition.

mod runners;
mod site;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use berth_testkit::{PostgresServer as Postgres, postgres_binaries};

use crate::bench_server::{self, JsonApiClient, PIPELINES};
use crate::load::{LoadConnection, ServerTarget};
use crate::process;
use crate::report::{describe_machine, format_millis, format_rate, group_digits, percentile};
use site::{CrowdedSite, claim};

pub(crate) const USAGE: &str = "\
usage: cargo xtask bench many [options]

  --database D     sqlite, or postgres for its own server [default: sqlite]
  --runners N      idle runners [default: 1000]
  --sessions N     held sessions [default: 10000]
  --steps N        steps that no runner can take [default: 100000]
  --clients N      concurrent connections that claim and release [default: 8]
  --seconds N      measured time of each part [default: 10]
  --dir DIR        where to put the data [default: the system's temporary directory]
  --check          fail if the p99 of a claim is above 50 ms anywhere
";

const P99_MAX: Duration = Duration::from_millis(50);
/// Pause before a measurement, so that the server settles.
const SETTLE: Duration = Duration::from_secs(2);

pub(super) struct ManyOptions {
    postgres: bool,
    runners: usize,
    sessions: usize,
    steps: usize,
    clients: usize,
    length: Duration,
    dir: PathBuf,
    check: bool,
}

fn parse_options(args: &[String]) -> anyhow::Result<ManyOptions> {
    let mut found = ManyOptions {
        postgres: false,
        runners: 1_000,
        sessions: 10_000,
        steps: 100_000,
        clients: 8,
        length: Duration::from_secs(10),
        dir: std::env::temp_dir(),
        check: false,
    };
    let mut args = args.iter();
    while let Some(name) = args.next() {
        let mut value = || args.next().with_context(|| format!("{name} needs a value\n\n{USAGE}"));
        match name.as_str() {
            "--database" => match value()?.as_str() {
                "postgres" => found.postgres = true,
                "sqlite" => found.postgres = false,
                other => bail!("--database must be sqlite or postgres, not {other}"),
            },
            "--runners" => found.runners = value()?.parse()?,
            "--sessions" => found.sessions = value()?.parse()?,
            "--steps" => found.steps = value()?.parse()?,
            "--clients" => found.clients = value()?.parse()?,
            "--seconds" => found.length = Duration::from_secs(value()?.parse()?),
            "--dir" => found.dir = value()?.into(),
            "--check" => found.check = true,
            other => bail!("unknown option {other}\n\n{USAGE}"),
        }
    }
    ensure!((1..=200).contains(&found.clients), "--clients must be 1 to 200");
    ensure!(found.runners + found.clients <= 1_000 + 20, "a server takes no more connections of one machine");
    Ok(found)
}

/// The result of one measurement.
struct LoadPhase {
    name: String,
    /// Latency of each claim, sorted.
    claims: Vec<Duration>,
    took: Duration,
    cpu: Duration,
}

pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    let options = parse_options(args)?;
    let temp = tempfile::Builder::new().prefix("berth-bench-").tempdir_in(&options.dir)?;
    let database = match options.postgres {
        false => None,
        true => {
            let bin =
                postgres_binaries().context("PostgreSQL is not installed: `apt-get install postgresql`")?;
            Some(Postgres::start_in(&bin, &options.dir).map_err(|why| anyhow::anyhow!("PostgreSQL: {why}"))?)
        }
    };
    let url = database.as_ref().map(|it| it.url("postgres"));
    let more: Vec<&str> = url.iter().flat_map(|url| ["--database", url]).collect();
    let token = bench_server::init(&temp.path().join("data"), &more)?;
    let all = [&["--no-runner"], &more[..]].concat();
    let (server, target) = bench_server::serve(&temp.path().join("data"), &all, &token)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = tokio::task::LocalSet::new();
    let parts = local.block_on(&runtime, measure(&options, &target, server.id()))?;
    print!("{}", render(&options, &parts));
    let worst =
        parts.iter().max_by_key(|part| percentile(&part.claims, 99)).context("nothing was measured")?;
    let p99 = percentile(&worst.claims, 99);
    ensure!(!options.check || p99 <= P99_MAX, "{}: p99 of a claim {p99:?}, at most {P99_MAX:?}", worst.name);
    Ok(())
}

async fn measure(
    options: &ManyOptions,
    target: &ServerTarget,
    server: u32,
) -> anyhow::Result<Vec<LoadPhase>> {
    let mut api = JsonApiClient::open(target).await?;
    let mut parts = Vec::new();
    let site = CrowdedSite::build(&mut api, options).await?;
    parts.push(measure_phase("nothing else", options, target, server).await?);
    site.claim_all(target, options).await?;
    parts.push(
        measure_phase(&format!("{} held sessions", group_digits(options.sessions)), options, target, server)
            .await?,
    );
    // Reconnect, because the server closes idle connections.
    let mut api = JsonApiClient::open(target).await?;
    let _runners = runners::start_runners(&mut api, target, options.runners).await?;
    let name = format!("and {} idle runners", group_digits(options.runners));
    parts.push(measure_phase(&name, options, target, server).await?);
    let mut api = JsonApiClient::open(target).await?;
    let steps = site.queue_deployments(&mut api).await?;
    parts.push(
        measure_phase(&format!("and {} steps that wait", group_digits(steps)), options, target, server)
            .await?,
    );
    Ok(parts)
}

/// Measures claims and releases for the configured time; each client uses its own environment.
async fn measure_phase(
    name: &str,
    options: &ManyOptions,
    target: &ServerTarget,
    server: u32,
) -> anyhow::Result<LoadPhase> {
    eprintln!("measuring with {name}");
    tokio::time::sleep(SETTLE).await;
    let mut clients = Vec::new();
    let (cpu, start) = (process::cpu_time(server)?, Instant::now());
    for number in 0..options.clients {
        let (target, until) = (target.clone(), start + options.length);
        clients.push(tokio::task::spawn_local(async move {
            let (mut connection, mut claims) = (LoadConnection::open(&target).await?, Vec::new());
            let environment = format!("{PIPELINES}/measured/ephemeral-environments/e{number}/sessions");
            while Instant::now() < until {
                let sent = Instant::now();
                let session = claim(&mut connection, &target, &environment, "{}").await?;
                claims.push(sent.elapsed());
                site::send_request(
                    &mut connection,
                    &target,
                    "DELETE",
                    &format!("{environment}/{session}"),
                    "",
                )
                .await?;
            }
            Ok::<_, anyhow::Error>(claims)
        }));
    }
    let mut claims = Vec::new();
    for client in clients {
        claims.extend(client.await??);
    }
    claims.sort_unstable();
    let cpu = process::cpu_time(server)?.saturating_sub(cpu);
    Ok(LoadPhase { name: name.to_owned(), claims, took: start.elapsed(), cpu })
}

fn render(options: &ManyOptions, parts: &[LoadPhase]) -> String {
    let database = if options.postgres { "PostgreSQL" } else { "SQLite" };
    let mut out = format!(
        "Claims under load, on {database}, {} clients that claim and release without a pause; clients, \
         runners, server and database share {}.\n\n",
        options.clients,
        describe_machine(),
    );
    let _ = writeln!(out, "| with | claims/s | p50 ms | p99 ms | longest ms | server cores |");
    let _ = writeln!(out, "|---|--:|--:|--:|--:|--:|");
    for part in parts {
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {:.2} |",
            part.name,
            format_rate(part.claims.len() as f64 / part.took.as_secs_f64()),
            format_millis(&part.claims, 50),
            format_millis(&part.claims, 99),
            format_millis(&part.claims, 100),
            part.cpu.as_secs_f64() / part.took.as_secs_f64(),
        );
    }
    out
}
