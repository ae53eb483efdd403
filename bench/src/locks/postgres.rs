//! Berth on PostgreSQL, compared with the same SQL statements without Berth.
//!
//! Each round has three parts, all on the same PostgreSQL server. First Berth is measured. Then Berth runs again while
//! its statements are recorded. Finally the recorded statements are replayed at full speed, on a copy of the database
//! from before the recording.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use berth_testkit::postgres::{Client, NoTls};
use berth_testkit::{PostgresServer as Postgres, postgres_binaries};

use super::berth::BerthService;
use super::etcd::{self, EtcdService};
use super::replay::{StreamRecording, replay};
use super::{LockOptions, LockRound, run_round};
use crate::report::{describe_machine, format_millis, format_rate, median};

/// Minimum ratio of Berth's rate to the rate of the replay.
const PART_MIN: f64 = 0.6;

struct ReplayComparison {
    berth: LockRound,
    /// Pairs per second of etcd. `None` if it is not installed.
    etcd: Option<f64>,
    /// Number of claim-and-release pairs in the recorded round.
    recorded: usize,
    /// How long the replay of the recorded statements takes.
    replay_time: Duration,
    connections: usize,
    statement_bytes: usize,
}

impl ReplayComparison {
    fn replay_per_second(&self) -> f64 {
        self.recorded as f64 / self.replay_time.as_secs_f64()
    }

    fn rate_ratio(&self) -> f64 {
        self.berth.per_second() / self.replay_per_second()
    }
}

pub(super) fn run(options: &LockOptions, dir: &Path) -> anyhow::Result<()> {
    let bin = postgres_binaries().context("PostgreSQL is not installed: `apt-get install postgresql`")?;
    let database =
        Postgres::start_in(&bin, &options.dir).map_err(|why| anyhow::anyhow!("PostgreSQL: {why}"))?;
    let clients = options.clients.first().copied().unwrap_or(1);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let etcd = match etcd::is_installed() {
        true => Some(runtime.block_on(EtcdService::start(&dir.join("etcd"), clients))?),
        false => None,
    };
    let mut measured = Vec::new();
    for number in 0..options.rounds {
        eprintln!("round {} of {}", number + 1, options.rounds);
        let place = dir.join(format!("round-{number}"));
        std::fs::create_dir(&place)?;
        measured.push(runtime.block_on(measure_round(
            options,
            clients,
            &place,
            &database,
            etcd.as_ref(),
            number,
        ))?);
    }
    print!("{}", render(clients, options, &measured));
    let part = median(measured.iter().map(ReplayComparison::rate_ratio));
    ensure!(
        !options.check || part >= PART_MIN,
        "{part:.2} of what the statements do alone, at least {PART_MIN}"
    );
    Ok(())
}

async fn measure_round(
    options: &LockOptions,
    clients: usize,
    dir: &Path,
    database: &Postgres,
    etcd: Option<&EtcdService>,
    number: usize,
) -> anyhow::Result<ReplayComparison> {
    let (original, copy) = (format!("bench_{number:03}_a"), format!("bench_{number:03}_b"));
    execute_sql(database, &format!("CREATE DATABASE {original} TEMPLATE template0 ENCODING 'UTF8'"))?;
    let data = dir.join("data");
    let url = format!("{}?sslmode=disable", database.url(&original));
    let token = BerthService::prepare(&data, &url, clients).await?;

    let direct = BerthService::serve(&data, &url, &token)?;
    // Warm up: open connections, prepare statements.
    run_round(&direct, clients, options.length / 4).await?;
    let berth = run_round(&direct, clients, options.length).await?;
    drop(direct);
    let etcd = match etcd {
        Some(etcd) => Some(run_round(etcd, clients, options.length).await?.per_second()),
        None => None,
    };
    wait_until_unused(database, &original)?;

    execute_sql(database, &format!("CREATE DATABASE {copy} TEMPLATE {original}"))?;
    let (recording, between) = (StreamRecording::default(), dir.join("between"));
    std::fs::create_dir(&between)?;
    recording.listen(&between.join(".s.PGSQL.5432"), &database.socket())?;
    let socket = between.display().to_string().replace('/', "%2F");
    let recorded =
        BerthService::serve(&data, &format!("postgres://berth@{socket}/{original}?sslmode=disable"), &token)?;
    let pairs = run_round(&recorded, clients, options.length).await?.latencies.len();
    drop(recorded);
    wait_until_unused(database, &original)?;
    let streams = recording.streams();
    let alone = replay(&database.socket(), &streams, &original, &copy)?;
    let statement_bytes = streams.iter().map(Vec::len).sum();
    Ok(ReplayComparison {
        berth,
        etcd,
        recorded: pairs,
        replay_time: alone,
        connections: streams.len(),
        statement_bytes,
    })
}

fn execute_sql(database: &Postgres, text: &str) -> anyhow::Result<()> {
    let url = database.url("postgres");
    let text = text.to_owned();
    // Use a separate thread, because the blocking driver cannot run inside an async runtime.
    let asked = std::thread::spawn(move || Client::connect(&url, NoTls)?.batch_execute(&text)).join();
    Ok(asked.map_err(|_| anyhow::anyhow!("the question to PostgreSQL panicked"))??)
}

/// Waits until the database has no connections, because only then can it be copied.
fn wait_until_unused(database: &Postgres, name: &str) -> anyhow::Result<()> {
    execute_sql(
        database,
        &format!(
            "DO $$ BEGIN FOR i IN 1..1000 LOOP
               PERFORM pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}';
               PERFORM pg_stat_clear_snapshot();
               EXIT WHEN NOT EXISTS (SELECT 1 FROM pg_stat_activity WHERE datname = '{name}');
               PERFORM pg_sleep(0.01);
             END LOOP; END $$"
        ),
    )
}

fn render(clients: usize, options: &LockOptions, measured: &[ReplayComparison]) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "Claim and release over HTTP on PostgreSQL, {clients} clients, {} rounds of {} ms each; clients, server and \
         database share {}.\nAlone: the same statements with the same parameters in the same order, recorded from a \
         round of Berth, over as many connections, by a loop that does nothing else.\n",
        measured.len(),
        options.length.as_millis(),
        describe_machine(),
    );
    let _ = writeln!(
        out,
        "| round | Berth pairs/s | p50 ms | p99 ms | etcd pairs/s | times etcd | alone pairs/s | part | connections | bytes/pair |"
    );
    let _ = writeln!(out, "|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
    for (number, it) in (1..).zip(measured) {
        let _ = writeln!(
            out,
            "| {number} | {} | {} | {} | {} | {} | {} | {:.2} | {} | {} |",
            format_rate(it.berth.per_second()),
            format_millis(&it.berth.latencies, 50),
            format_millis(&it.berth.latencies, 99),
            it.etcd.map_or_else(|| "–".to_owned(), format_rate),
            it.etcd.map_or_else(|| "–".to_owned(), |etcd| format!("{:.2}", it.berth.per_second() / etcd)),
            format_rate(it.replay_per_second()),
            it.rate_ratio(),
            it.connections,
            it.statement_bytes / it.recorded.max(1),
        );
    }
    let part = median(measured.iter().map(ReplayComparison::rate_ratio));
    let _ = writeln!(out, "\nBerth does {part:.2} of what its statements do alone; the goal is {PART_MIN}.");
    out
}
