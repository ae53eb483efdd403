//! `steps`: measures the cost of a step that does nothing, compared with the same command without Berth, and how soon
//! the first step of a deployment starts.
//!
//! Each sandbox level has its own server. In each round, every server runs one deployment of many steps in sequence,
//! and the benchmark itself starts the same number of shells. Only ratios within a round are compared.

mod report;

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, bail, ensure};

use crate::bench_server::{self, JsonApiClient};
use crate::deploy::{BenchPipeline, elapsed_between, first_attempt, log_path, script_step};
use crate::process::{self, BenchServer};

pub(crate) const USAGE: &str = "\
usage: cargo xtask bench steps [options]

  --steps N        steps of a deployment [default: 100]
  --rounds N       rounds; every level of sandbox is measured once in each [default: 7]
  --starts N       deployments of one step, to measure how soon it starts [default: 100]
  --quick          the same as --rounds 5 --starts 30
  --only WORD      only this level of sandbox: off, landlock, bubblewrap
  --dir DIR        where to put the data [default: the system's temporary directory]
  --check          fail unless a step costs at most 2.2 times a bare process, and starts within 10 ms
";

const LEVELS: &[&str] = &["off", "landlock", "bubblewrap"];
const STEPS_MAX: usize = 500;
/// Poll interval. It is long, because polling a deployment of many steps slows the steps down. The measured times come
/// from the server's records, not from polling.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
const START_POLL_INTERVAL: Duration = Duration::from_millis(10);

struct StepOptions {
    steps: usize,
    rounds: usize,
    starts: usize,
    only: Option<String>,
    dir: PathBuf,
    check: bool,
}

fn parse_options(args: &[String]) -> anyhow::Result<StepOptions> {
    let mut options = StepOptions {
        steps: 100,
        rounds: 7,
        starts: 100,
        only: None,
        dir: std::env::temp_dir(),
        check: false,
    };
    let mut args = args.iter();
    while let Some(name) = args.next() {
        let mut value = || args.next().with_context(|| format!("{name} needs a value\n\n{USAGE}"));
        match name.as_str() {
            "--steps" => options.steps = value()?.parse().context("--steps must be a whole number")?,
            "--rounds" => options.rounds = value()?.parse().context("--rounds must be a whole number")?,
            "--starts" => options.starts = value()?.parse().context("--starts must be a whole number")?,
            "--quick" => (options.rounds, options.starts) = (5, 30),
            "--only" => options.only = Some(value()?.clone()),
            "--dir" => options.dir = value()?.into(),
            "--check" => options.check = true,
            other => bail!("unknown option {other}\n\n{USAGE}"),
        }
    }
    ensure!((1..=STEPS_MAX).contains(&options.steps), "--steps must be 1 to {STEPS_MAX}");
    ensure!((1..=100).contains(&options.rounds), "--rounds must be 1 to 100");
    ensure!((1..=10_000).contains(&options.starts), "--starts must be 1 to 10000");
    let known = options.only.as_deref().is_none_or(|only| LEVELS.contains(&only));
    ensure!(known, "--only must be one of {}", LEVELS.join(", "));
    Ok(options)
}

/// A server with one sandbox level, and its measurements.
struct MeasuredLevel {
    name: &'static str,
    api: JsonApiClient,
    many: BenchPipeline,
    one: BenchPipeline,
    server: BenchServer,
    /// Time per step and server CPU time per step, for each round.
    rounds: Vec<(Duration, Duration)>,
}

/// Times until the first step starts, sorted.
#[derive(Default)]
struct StartTimes {
    /// From the deployment's `createdAt` to the first attempt's `startedAt`.
    recorded: Vec<Duration>,
    /// From just before the request was sent to the time that the step prints.
    seen: Vec<Duration>,
}

struct StepMeasurements {
    levels: Vec<MeasuredLevel>,
    /// Sandbox levels that do not work on this machine.
    missing: Vec<&'static str>,
    /// Time per bare process, for each round.
    bare: Vec<Duration>,
    starts: StartTimes,
}

pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    let options = parse_options(args)?;
    let temp = tempfile::Builder::new().prefix("berth-bench-").tempdir_in(&options.dir)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let measured = runtime.block_on(measure(&options, temp.path()))?;
    print!("{}", report::render(options.steps, &measured));
    if options.check { report::check(&measured) } else { Ok(()) }
}

async fn measure(options: &StepOptions, dir: &std::path::Path) -> anyhow::Result<StepMeasurements> {
    let (mut levels, mut missing) = (Vec::new(), Vec::new());
    for name in LEVELS.iter().filter(|name| options.only.as_deref().is_none_or(|only| only == **name)) {
        match bench_server::start(&dir.join(name), &["--sandbox", name]) {
            Ok((server, target)) => {
                let mut api = JsonApiClient::open(&target).await?;
                let steps = (0..options.steps).map(|number| script_step(&format!("s{number}"), "true"));
                let many = BenchPipeline::create(&mut api, "many", steps.collect()).await?;
                let one =
                    BenchPipeline::create(&mut api, "one", vec![script_step("only", "date +%s%N")]).await?;
                levels.push(MeasuredLevel { name, api, many, one, server, rounds: Vec::new() });
            }
            Err(error) if levels.is_empty() => return Err(error),
            Err(_) => missing.push(*name),
        }
    }
    let mut measured = StepMeasurements { levels, missing, bare: Vec::new(), starts: StartTimes::default() };
    // The first deployment of a server runs with cold caches, so it is not measured.
    for level in &mut measured.levels {
        level.run_round(options.steps).await?;
        level.rounds.clear();
    }
    for number in 0..options.rounds {
        eprintln!("round {} of {}", number + 1, options.rounds);
        measured.bare.push(measure_bare(options.steps)?);
        for level in &mut measured.levels {
            level.run_round(options.steps).await?;
        }
    }
    eprintln!("{} deployments of one step", options.starts);
    if let Some(level) = measured.levels.first_mut() {
        measured.starts = level.measure_starts(options.starts).await?;
    }
    Ok(measured)
}

/// Returns the time per shell that does nothing.
fn measure_bare(count: usize) -> anyhow::Result<Duration> {
    let began = Instant::now();
    for _ in 0..count {
        let status = Command::new("/bin/sh").args(["-c", "true"]).stdin(Stdio::null()).status()?;
        ensure!(status.success(), "sh -c true has failed");
    }
    Ok(began.elapsed() / u32::try_from(count)?)
}

impl MeasuredLevel {
    async fn run_round(&mut self, steps: usize) -> anyhow::Result<()> {
        let cpu = process::cpu_time(self.server.id())?;
        let deployed = self.many.deploy(&mut self.api).await?;
        let found = self.many.finish(&mut self.api, &deployed, POLL_INTERVAL).await?;
        let cpu = process::cpu_time(self.server.id())?.saturating_sub(cpu);
        let ran = found["stages"][0]["steps"].as_array().map_or(0, Vec::len);
        ensure!(ran == steps, "{ran} of {steps} steps are there");
        let took = elapsed_between(&first_attempt(&found)["startedAt"], &found["finishedAt"])?;
        let steps = u32::try_from(steps)?;
        self.rounds.push((took / steps, cpu / steps));
        Ok(())
    }

    async fn measure_starts(&mut self, count: usize) -> anyhow::Result<StartTimes> {
        let mut starts = StartTimes::default();
        for _ in 0..count {
            let deployed = self.one.deploy(&mut self.api).await?;
            let found = self.one.finish(&mut self.api, &deployed, START_POLL_INTERVAL).await?;
            starts.recorded.push(elapsed_between(&found["createdAt"], &first_attempt(&found)["startedAt"])?);
            let log = format!("{}?raw=true", log_path(&deployed.id, "only"));
            let printed = self.api.get_text(&log).await?;
            let printed = Duration::from_nanos(printed.trim().parse().context("the step prints no time")?);
            let sent = deployed.sent.duration_since(SystemTime::UNIX_EPOCH)?;
            starts.seen.push(printed.saturating_sub(sent));
        }
        starts.recorded.sort_unstable();
        starts.seen.sort_unstable();
        Ok(starts)
    }
}
