//! `logs`: measures the cost of masking, storing and streaming a step's output, the latency of a line, and how the
//! server copes with endless output.
//!
//! The step is compared with the same command writing to a file. Only ratios within a round are compared.

mod live;
mod report;
mod stress;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};

use crate::bench_server::{self, JsonApiClient, ORGANIZATION};
use crate::deploy::{BenchPipeline, elapsed_between, first_attempt, script_step};

pub(crate) const USAGE: &str = "\
usage: cargo xtask bench logs [options]

  --lines N        lines of the step that is compared with a file [default: 100000]
  --rounds N       rounds; both sides are measured once in each [default: 7]
  --live N         lines whose latency to a reader is measured [default: 300]
  --bytes N        size of the largest output [default: 1000000000]
  --quick          the same as --rounds 5 --live 100 --bytes 100000000
  --dir DIR        where to put the data [default: the system's temporary directory]
  --check          fail unless the step takes at most twice as long as a file, and a line arrives within 100 ms
";

/// Secrets that are masked in the output.
const SECRETS: &[(&str, &str)] =
    &[("TOKEN", "k7Q2-mPz9-Xw41-Lr83-vTn6"), ("PASSWORD", "correct-Horse-7-battery-Staple")];
const POLL_INTERVAL: Duration = Duration::from_millis(10);

struct LogOptions {
    lines: usize,
    rounds: usize,
    live: usize,
    bytes: u64,
    dir: PathBuf,
    check: bool,
}

fn parse_options(args: &[String]) -> anyhow::Result<LogOptions> {
    let (mut lines, mut rounds, mut live, mut bytes) = (100_000, 7, 300, 1_000_000_000);
    let (mut dir, mut check) = (std::env::temp_dir(), false);
    let mut args = args.iter();
    while let Some(name) = args.next() {
        let mut value = || args.next().with_context(|| format!("{name} needs a value\n\n{USAGE}"));
        match name.as_str() {
            "--lines" => lines = value()?.parse().context("--lines must be a whole number")?,
            "--rounds" => rounds = value()?.parse().context("--rounds must be a whole number")?,
            "--live" => live = value()?.parse().context("--live must be a whole number")?,
            "--bytes" => bytes = value()?.parse().context("--bytes must be a whole number")?,
            "--quick" => (rounds, live, bytes) = (5, 100, 100_000_000),
            "--dir" => dir = value()?.into(),
            "--check" => check = true,
            other => bail!("unknown option {other}\n\n{USAGE}"),
        }
    }
    ensure!((1..=10_000_000).contains(&lines), "--lines must be 1 to 10000000");
    ensure!((1..=100).contains(&rounds), "--rounds must be 1 to 100");
    ensure!((1..=10_000).contains(&live), "--live must be 1 to 10000");
    ensure!((1_000_000..=1_000_000_000).contains(&bytes), "--bytes must be 1000000 to 1000000000");
    Ok(LogOptions { lines, rounds, live, bytes, dir, check })
}

/// Times of one round: for the step, and for the same command writing to a file and to `/dev/null`.
struct LogRound {
    step: Duration,
    file: Duration,
    alone: Duration,
}

struct LogMeasurements {
    command: String,
    rounds: Vec<LogRound>,
    /// How long each line took from being printed to arriving, sorted.
    delays: Vec<Duration>,
    stress: Vec<stress::StressResult>,
}

pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    let options = parse_options(args)?;
    let temp = tempfile::Builder::new().prefix("berth-bench-").tempdir_in(&options.dir)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let measured = runtime.block_on(measure(&options, temp.path()))?;
    print!("{}", report::render(&measured));
    if options.check { report::check(&measured) } else { Ok(()) }
}

async fn measure(options: &LogOptions, dir: &Path) -> anyhow::Result<LogMeasurements> {
    let (server, target) = bench_server::start(&dir.join("berth"), &["--sandbox", "off"])?;
    let mut api = JsonApiClient::open(&target).await?;
    for (name, value) in SECRETS {
        api.post(&format!("{ORGANIZATION}/secrets"), &json!({ "name": name, "value": value })).await?;
    }
    let command = format!("seq 1 {}", options.lines);
    let rounds = measure_rounds(options, &mut api, &command, &dir.join("out")).await?;
    eprintln!("{} lines on their way to a reader", options.live);
    let delays = live::measure_delays(&mut api, &target, options.live).await?;
    let stress = stress::run_all(&mut api, &target, &server, options.bytes).await?;
    Ok(LogMeasurements { command, rounds, delays, stress })
}

/// Returns a step that has secrets, so that its output is masked.
fn masked_step(id: &str, run: &str) -> Value {
    let mut step = script_step(id, run);
    let env =
        SECRETS.iter().map(|(name, _)| ((*name).to_owned(), json!(format!("${{{{ secrets.{name} }}}}"))));
    step["env"] = Value::Object(env.collect());
    step
}

async fn measure_rounds(
    options: &LogOptions,
    api: &mut JsonApiClient,
    command: &str,
    out: &Path,
) -> anyhow::Result<Vec<LogRound>> {
    let pipeline = BenchPipeline::create(api, "lines", vec![masked_step("print", command)]).await?;
    let mut rounds = Vec::new();
    // The first round runs with cold caches and does not count.
    for number in 0..=options.rounds {
        if number > 0 {
            eprintln!("round {number} of {}", options.rounds);
        }
        let (alone, file) = (run_bare(command, Path::new("/dev/null"))?, run_bare(command, out)?);
        let deployed = pipeline.deploy(api).await?;
        let found = pipeline.finish(api, &deployed, POLL_INTERVAL).await?;
        let attempt = first_attempt(&found);
        let (printed, wanted) = (&attempt["logBytes"], std::fs::metadata(out)?.len());
        ensure!(*printed == wanted, "the log has {printed} bytes, the file {wanted}");
        rounds.push(LogRound {
            step: elapsed_between(&attempt["startedAt"], &attempt["finishedAt"])?,
            file,
            alone,
        });
    }
    Ok(rounds.split_off(1))
}

/// Runs the command without Berth, but in the same way as a step.
fn run_bare(command: &str, into: &Path) -> anyhow::Result<Duration> {
    let file = File::create(into)?;
    let began = Instant::now();
    let status =
        Command::new("/bin/sh").args(["-e", "-c", command]).stdin(Stdio::null()).stdout(file).status()?;
    ensure!(status.success(), "{command} has failed");
    Ok(began.elapsed())
}
