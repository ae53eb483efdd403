//! `containers`: measures the time of a step in a container, compared with `podman run` of the same command.
//!
//! In each round, a server runs one deployment of several steps in sequence, and the benchmark itself starts the same
//! number of containers with the same storage. Only ratios within a round are compared.

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use berth_testkit::podman::{IMAGE, PodmanService};
use serde_json::{Value, json};

use crate::bench_server::{self, JsonApiClient};
use crate::deploy::{BenchPipeline, elapsed_between, first_attempt, script_step};
use crate::report::{describe_machine, load_average, median};

pub(crate) const USAGE: &str = "\
usage: cargo xtask bench containers [options]

  --steps N        steps of a deployment [default: 10]
  --rounds N       rounds [default: 5]
  --check          fail unless a step takes at most 1.3 times as long as `podman run`
";

const STEPS_MAX: usize = 100;
const ROUNDS_MAX: usize = 100;
/// Goal: a step in a container takes at most this many times as long as `podman run`.
const TIMES_MAX: f64 = 1.3;
const POLL_INTERVAL: Duration = Duration::from_millis(250);

struct ContainerRound {
    /// Time per container of `podman run`.
    bare: Duration,
    /// Time per step.
    step: Duration,
}

pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    let (mut steps, mut rounds, mut is_checked) = (10, 5, false);
    let mut rest = args.iter();
    while let Some(name) = rest.next() {
        let mut value = || rest.next().with_context(|| format!("{name} needs a value\n\n{USAGE}"));
        match name.as_str() {
            "--steps" => steps = value()?.parse().context("--steps must be a whole number")?,
            "--rounds" => rounds = value()?.parse().context("--rounds must be a whole number")?,
            "--check" => is_checked = true,
            other => bail!("unknown option {other}\n\n{USAGE}"),
        }
    }
    ensure!((1..=STEPS_MAX).contains(&steps), "--steps must be 1 to {STEPS_MAX}");
    ensure!((1..=ROUNDS_MAX).contains(&rounds), "--rounds must be 1 to {ROUNDS_MAX}");
    let podman = PodmanService::start().context("this machine cannot run containers")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let measured = runtime.block_on(measure(&podman, steps, rounds))?;
    let times = median(measured.iter().map(times_bare));
    print_report(steps, &measured);
    ensure!(
        !is_checked || times <= TIMES_MAX,
        "a step in a container takes {times:.2} times as long as `podman run`, at most {TIMES_MAX}"
    );
    Ok(())
}

async fn measure(podman: &PodmanService, steps: usize, rounds: usize) -> anyhow::Result<Vec<ContainerRound>> {
    let config = podman.dir().join("berth.toml");
    let text = format!("[runner.containers]\nsocket = \"{}\"\n", podman.socket().display());
    std::fs::write(&config, text).context("cannot write the configuration")?;
    let config = config.display().to_string();
    let (_server, target) = bench_server::start(&podman.dir().join("data"), &["--config", &config])?;
    let mut api = JsonApiClient::open(&target).await?;
    let steps_json: Vec<Value> = (0..steps).map(|number| container_step(&format!("s{number}"))).collect();
    let pipeline = BenchPipeline::create(&mut api, "containers", steps_json).await?;
    // Both ways of running start with cold caches, so the first round is not measured.
    measure_bare(podman, 1)?;
    measure_steps(&mut api, &pipeline, steps).await?;
    let mut measured = Vec::new();
    for number in 0..rounds {
        eprintln!("round {} of {rounds}", number + 1);
        let bare = measure_bare(podman, steps)?;
        measured.push(ContainerRound { bare, step: measure_steps(&mut api, &pipeline, steps).await? });
    }
    Ok(measured)
}

/// Returns the time per container of `podman run`.
fn measure_bare(podman: &PodmanService, count: usize) -> anyhow::Result<Duration> {
    let began = Instant::now();
    for _ in 0..count {
        let done = podman.run(&["run", "--rm", IMAGE, "/bin/sh", "-e", "-c", "true"]);
        ensure!(done.status.success(), "podman run failed: {}", String::from_utf8_lossy(&done.stderr));
    }
    Ok(began.elapsed() / u32::try_from(count)?)
}

/// Runs a deployment and returns the time per step.
async fn measure_steps(
    api: &mut JsonApiClient,
    pipeline: &BenchPipeline,
    steps: usize,
) -> anyhow::Result<Duration> {
    let deployed = pipeline.deploy(api).await?;
    let found = pipeline.finish(api, &deployed, POLL_INTERVAL).await?;
    let took = elapsed_between(&first_attempt(&found)["startedAt"], &found["finishedAt"])?;
    Ok(took / u32::try_from(steps)?)
}

fn container_step(id: &str) -> Value {
    let mut step = script_step(id, "true");
    step["container"] = json!({ "image": IMAGE });
    step
}

fn times_bare(round: &ContainerRound) -> f64 {
    round.step.as_secs_f64() / round.bare.as_secs_f64()
}

fn print_report(steps: usize, measured: &[ContainerRound]) {
    println!(
        "Deployments of {steps} script steps `true` in a container, {} rounds; everything shares {}, load {}.\n",
        measured.len(),
        describe_machine(),
        load_average(),
    );
    let ratios = || measured.iter().map(times_bare);
    println!("| | ms per container | times `podman run` | least to most |\n|---|--:|--:|--:|");
    let millis = |length: Duration| length.as_secs_f64() * 1_000.0;
    println!(
        "| `podman run --rm` | {:.0} | 1.00 | |",
        median(measured.iter().map(|round| millis(round.bare)))
    );
    println!(
        "| step with `container` | {:.0} | {:.2} | {:.2} to {:.2} |",
        median(measured.iter().map(|round| millis(round.step))),
        median(ratios()),
        ratios().fold(f64::INFINITY, f64::min),
        ratios().fold(0.0, f64::max),
    );
    println!("\nGoal: at most {TIMES_MAX} times.");
}
