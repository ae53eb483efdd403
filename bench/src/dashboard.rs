//! `dashboard`: measures Home in Chromium at growing sizes, with a script of the dashboard that also checks the limits.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use serde_json::Value;

use crate::bench_server::berth_program;
use crate::report::describe_machine;

pub(crate) const USAGE: &str = "\
usage: cargo xtask bench dashboard [options]

  --pipelines N,N,…  pipelines on Home, with five environments for every two [default: 20,200]
";

/// With fewer, Home has no count of held environments, which the script reads.
const PIPELINES_MIN: usize = 20;
const PIPELINES_MAX: usize = 1_000;
const SCRIPT: &str = "home.measure.ts";
const CONFIG: &str = "playwright.measure.config.ts";

pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    let sizes = parse_sizes(args)?;
    println!(
        "Home in Chromium, medians of five rounds; server, browser and test share {}.\n",
        describe_machine()
    );
    println!("| pipelines | first rows ms | most CPU ms in a frame | change visible p99 ms |");
    println!("|--:|--:|--:|--:|");
    for pipelines in sizes {
        eprintln!("{pipelines} pipelines");
        let figures = measure(pipelines)?;
        let number = |name: &str| figures[name].as_f64().with_context(|| format!("no figure {name}"));
        println!(
            "| {pipelines} | {} | {} | {} |",
            number("renderMs")?,
            number("frameCpuMsMax")?,
            number("changeMsP99")?
        );
    }
    Ok(())
}

fn parse_sizes(args: &[String]) -> anyhow::Result<Vec<usize>> {
    let sizes = match args {
        [] => vec![20, 200],
        [name, list] if name == "--pipelines" => {
            let numbers = list.split(',').map(str::parse).collect::<Result<_, _>>();
            numbers.context("--pipelines must be whole numbers")?
        }
        _ => anyhow::bail!("unknown options\n\n{USAGE}"),
    };
    ensure!(
        sizes.iter().all(|size| (PIPELINES_MIN..=PIPELINES_MAX).contains(size)),
        "--pipelines must be {PIPELINES_MIN} to {PIPELINES_MAX}"
    );
    Ok(sizes)
}

/// Runs the script and returns the figures that it prints, also if it fails because a limit is exceeded.
fn measure(pipelines: usize) -> anyhow::Result<Value> {
    let web: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../web");
    let mut command = Command::new("npx");
    command.args(["playwright", "test", "--config", CONFIG, SCRIPT]).current_dir(&web).stdin(Stdio::null());
    command.env("BERTH_PROGRAM", berth_program()?).env("BERTH_PIPELINES", pipelines.to_string());
    let done = command.output().context("cannot run npx; `cargo xtask bench` installs what it needs")?;
    let output = String::from_utf8_lossy(&done.stdout);
    let figures = output.lines().find_map(|line| serde_json::from_str(line).ok());
    figures.with_context(|| format!("{SCRIPT} printed no figures: {output}"))
}
