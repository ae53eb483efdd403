//! `sources`: measures a step that needs the files of a commit, compared with a bare process in a new `git worktree`.
//!
//! In each round, a server runs one deployment of several steps in sequence, and the benchmark itself checks the same
//! commit out as many times. The server has checked the commit out before, in a round that is not measured, and keeps the
//! files because its steps run in a sandbox. Only ratios within a round are compared.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use serde_json::json;

use crate::bench_server::{self, JsonApiClient, ORGANIZATION, PIPELINES};
use crate::deploy::{BenchPipeline, elapsed_between, first_attempt};
use crate::report::{describe_machine, group_digits, load_average, median};

pub(crate) const USAGE: &str = "\
usage: cargo xtask bench sources [options]

  --files N,N,…    files of the commit [default: 70,700,7000]
  --steps N        steps of a deployment; fewer if there are many files [default: 10]
  --rounds N       rounds [default: 5]
  --dir DIR        where to put the data [default: the system's temporary directory]
";

const FILES_MAX: usize = 100_000;
/// Number of files that the steps of a deployment get together, unless it has only `STEPS_MIN`.
const STEP_FILES_MAX: usize = 21_000;
const STEPS_MIN: usize = 2;
const FILES_PER_DIRECTORY: usize = 50;
const FILE_BYTES: usize = 2_000;
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// A first sync that takes longer than this has failed.
const SYNC_WAIT: Duration = Duration::from_secs(120);

struct SourceOptions {
    files: Vec<usize>,
    steps: usize,
    rounds: usize,
    dir: PathBuf,
}

fn parse_options(args: &[String]) -> anyhow::Result<SourceOptions> {
    let (mut files, mut steps, mut rounds) = (vec![70, 700, 7_000], 10, 5);
    let mut dir = std::env::temp_dir();
    let mut args = args.iter();
    while let Some(name) = args.next() {
        let mut value = || args.next().with_context(|| format!("{name} needs a value\n\n{USAGE}"));
        match name.as_str() {
            "--files" => {
                let numbers = value()?.split(',').map(str::parse).collect::<Result<_, _>>();
                files = numbers.context("--files must be whole numbers")?;
            }
            "--steps" => steps = value()?.parse().context("--steps must be a whole number")?,
            "--rounds" => rounds = value()?.parse().context("--rounds must be a whole number")?,
            "--dir" => dir = value()?.into(),
            other => bail!("unknown option {other}\n\n{USAGE}"),
        }
    }
    ensure!(files.iter().all(|count| (1..=FILES_MAX).contains(count)), "--files must be 1 to {FILES_MAX}");
    ensure!((1..=100).contains(&steps), "--steps must be 1 to 100");
    ensure!((1..=100).contains(&rounds), "--rounds must be 1 to 100");
    Ok(SourceOptions { files, steps, rounds, dir })
}

/// The result of one round: the time per step and per bare process.
struct SourceRound {
    step: Duration,
    bare: Duration,
}

struct SourceMeasurement {
    files: usize,
    steps: usize,
    /// The step that checks the commit out for the first time.
    first: Duration,
    rounds: Vec<SourceRound>,
}

pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    let options = parse_options(args)?;
    let temp = tempfile::Builder::new().prefix("berth-bench-").tempdir_in(&options.dir)?;
    let origins = temp.path().join("origins");
    let root = origins.display().to_string();
    // Without a sandbox, a runner does not keep checkouts, because steps could change them.
    let flags = ["--sandbox", "landlock", "--repository-root", &root];
    std::fs::create_dir(&origins)?;
    let (_server, target) = bench_server::start(&temp.path().join("data"), &flags)
        .context("kept checkouts need a server with the sandbox landlock")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let measured = runtime.block_on(async {
        let mut api = JsonApiClient::open(&target).await?;
        let mut measured = Vec::new();
        for files in &options.files {
            eprintln!("{files} files");
            measured.push(measure(&options, &mut api, &origins, *files).await?);
        }
        Ok::<_, anyhow::Error>(measured)
    })?;
    print_report(&options, &measured);
    Ok(())
}

async fn measure(
    options: &SourceOptions,
    api: &mut JsonApiClient,
    origins: &Path,
    files: usize,
) -> anyhow::Result<SourceMeasurement> {
    let slug = format!("files-{files}");
    let steps = options.steps.min((STEP_FILES_MAX / files).max(STEPS_MIN));
    let origin = origins.join(&slug);
    let commit = create_repository(&origin, &slug, files, steps)?;
    api.post(&format!("{ORGANIZATION}/repositories"), &json!({ "url": origin.display().to_string() }))
        .await?;
    wait_for_pipeline(api, &slug).await?;
    let pipeline = BenchPipeline::of_commit(&slug, &commit);
    let mut first = None;
    let mut rounds = Vec::new();
    for _ in 0..=options.rounds {
        let deployed = pipeline.deploy(api).await?;
        let found = pipeline.finish(api, &deployed, POLL_INTERVAL).await?;
        let attempt = first_attempt(&found);
        let all = elapsed_between(&attempt["startedAt"], &found["finishedAt"])?;
        // The first round runs with cold caches. Only its first step is reported.
        match first {
            None => first = Some(elapsed_between(&attempt["startedAt"], &attempt["finishedAt"])?),
            Some(_) => rounds.push(SourceRound {
                step: all / u32::try_from(steps)?,
                bare: measure_bare(&origin, &commit, steps)?,
            }),
        }
    }
    Ok(SourceMeasurement { files, steps, first: first.unwrap_or_default(), rounds })
}

/// Creates a repository with one commit and returns the commit's hash.
fn create_repository(at: &Path, slug: &str, files: usize, steps: usize) -> anyhow::Result<String> {
    let definition = at.join(".berth").join(slug);
    std::fs::create_dir_all(&definition)?;
    let steps: Vec<_> =
        (0..steps).map(|number| crate::deploy::script_step(&format!("s{number}"), "true")).collect();
    let text = json!({ "version": 1, "pipeline": {
        "name": slug, "steps": steps, "ephemeral_environments": { "qa": {} },
    }});
    std::fs::write(definition.join("pipeline.yaml"), text.to_string())?;
    for number in 0..files {
        let directory = at.join(format!("d{}", number / FILES_PER_DIRECTORY));
        std::fs::create_dir_all(&directory)?;
        let line = format!("{number} ").repeat(FILE_BYTES / 5);
        std::fs::write(directory.join(format!("f{number}.txt")), line)?;
    }
    git(at, &["init", "--quiet", "--initial-branch=main"])?;
    git(at, &["add", "--all"])?;
    let author = ["-c", "user.name=bench", "-c", "user.email=bench@berth.test"];
    git(at, &[&author[..], &["commit", "--quiet", "--message", "sources"]].concat())?;
    git(at, &["rev-parse", "HEAD"])
}

/// Returns the time per bare process in a new worktree, including the worktree's removal.
fn measure_bare(origin: &Path, commit: &str, count: usize) -> anyhow::Result<Duration> {
    let worktree = origin.with_extension("worktree");
    let path = worktree.display().to_string();
    let began = Instant::now();
    for _ in 0..count {
        git(origin, &["worktree", "add", "--quiet", "--detach", &path, commit])?;
        let mut shell = Command::new("/bin/sh");
        let status = shell.args(["-c", "true"]).current_dir(&worktree).stdin(Stdio::null()).status()?;
        ensure!(status.success(), "sh -c true has failed");
        git(origin, &["worktree", "remove", "--force", &path])?;
    }
    Ok(began.elapsed() / u32::try_from(count)?)
}

fn git(at: &Path, args: &[&str]) -> anyhow::Result<String> {
    let done = Command::new("git").arg("-C").arg(at).args(args).output().context("cannot run git")?;
    ensure!(done.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&done.stderr));
    Ok(String::from_utf8_lossy(&done.stdout).trim().to_owned())
}

async fn wait_for_pipeline(api: &mut JsonApiClient, slug: &str) -> anyhow::Result<()> {
    let (path, began) = (format!("{PIPELINES}/{slug}"), Instant::now());
    while api.get(&path).await.is_err() {
        ensure!(began.elapsed() < SYNC_WAIT, "the repository of {slug} is not synced");
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    Ok(())
}

fn print_report(options: &SourceOptions, measured: &[SourceMeasurement]) {
    println!(
        "Deployments of script steps `true` in sequence with the files of a commit, {} rounds, with the sandbox landlock; \
         everything shares {}, load {}. Bare: `git worktree add`, `sh -c true`, `git worktree remove`.\n",
        options.rounds,
        describe_machine(),
        load_average(),
    );
    println!(
        "| files | steps | first step ms | ms per step | bare ms | times bare |\n|--:|--:|--:|--:|--:|--:|"
    );
    let millis = |length: Duration| length.as_secs_f64() * 1_000.0;
    for of in measured {
        println!(
            "| {} | {} | {:.0} | {:.1} | {:.1} | {:.2} |",
            group_digits(of.files),
            of.steps,
            millis(of.first),
            median(of.rounds.iter().map(|round| millis(round.step))),
            median(of.rounds.iter().map(|round| millis(round.bare))),
            median(of.rounds.iter().map(|round| millis(round.step) / millis(round.bare))),
        );
    }
}
