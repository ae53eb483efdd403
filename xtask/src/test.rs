//! `cargo xtask test`: what a newcomer and continuous integration run.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::postgres;
use crate::schemathesis::{self, Verdict};
use crate::tool::{cargo, cargo_has, run as run_command};
use crate::web::{self, NoNode};

enum Outcome {
    Passed,
    Skipped(String),
    Failed(String),
}

struct Step {
    name: &'static str,
    took: Duration,
    outcome: Outcome,
}

pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let quick = match args {
        [] => false,
        [only] if only == "--quick" => true,
        _ => return Err("usage: cargo xtask test [--quick]".into()),
    };
    let mut bin = None;
    let mut steps = vec![step("tools", "looking for a PostgreSQL server", || tools(quick, &mut bin))];
    steps.push(step("format", "cargo fmt --all --check", format));
    if !quick {
        steps.push(step("lint", "cargo clippy, a cold build takes some minutes", lint));
    }
    steps.push(step("tests", "all tests, a cold build takes some minutes", || tests(bin.as_ref())));
    if !quick {
        steps.push(step("api", "requests made up from the OpenAPI document", api));
        steps.extend(dashboard_steps());
    }
    summary(&steps)
}

fn step(name: &'static str, what: &str, work: impl FnOnce() -> Outcome) -> Step {
    println!("==> {name}: {what}");
    let start = Instant::now();
    let outcome = work();
    if let Outcome::Skipped(why) | Outcome::Failed(why) = &outcome {
        println!("    {why}");
    }
    Step { name, took: start.elapsed(), outcome }
}

fn tools(quick: bool, bin: &mut Option<PathBuf>) -> Outcome {
    let found = match postgres::find() {
        Some(found) => Ok(found),
        None if quick => Err(postgres::missing("--quick installs nothing")),
        None => postgres::install(),
    };
    match found {
        Ok(found) => {
            println!("    PostgreSQL in {}", found.display());
            *bin = Some(found);
            Outcome::Passed
        }
        Err(why) => Outcome::Skipped(why),
    }
}

fn format() -> Outcome {
    if !cargo_has("fmt") {
        return Outcome::Skipped("rustfmt is not installed: `rustup component add rustfmt`".into());
    }
    match run_command(&mut cargo(["fmt", "--all", "--check"])) {
        Ok(()) => Outcome::Passed,
        Err(why) => Outcome::Failed(format!("{why}. Run `cargo fmt --all`.")),
    }
}

fn lint() -> Outcome {
    if !cargo_has("clippy") {
        return Outcome::Skipped("clippy is not installed: `rustup component add clippy`".into());
    }
    let args = ["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"];
    run_command(&mut cargo(args)).map_or_else(Outcome::Failed, |()| Outcome::Passed)
}

fn tests(postgres_bin: Option<&PathBuf>) -> Outcome {
    let mut command = if cargo_has("nextest") {
        cargo(["nextest", "run", "--workspace", "--no-fail-fast"])
    } else {
        println!("    cargo-nextest is not installed; `cargo test` does the same, slower");
        // Documentation has no tests; building them takes as long as running all others.
        cargo(["test", "--quiet", "--workspace", "--all-targets", "--no-fail-fast"])
    };
    if let Some(bin) = postgres_bin {
        command.env(postgres::BIN_VARIABLE, bin);
    }
    run_command(&mut command).map_or_else(Outcome::Failed, |()| Outcome::Passed)
}

fn api() -> Outcome {
    match schemathesis::step() {
        Ok(Verdict::Passed(line)) => {
            println!("{line}");
            Outcome::Passed
        }
        Ok(Verdict::Skipped(why)) => Outcome::Skipped(why),
        Err(why) => Outcome::Failed(why),
    }
}

/// The dashboard alone.
pub(crate) fn dashboard() -> Result<(), String> {
    summary(&dashboard_steps())
}

fn dashboard_steps() -> Vec<Step> {
    let outcome = |done| match done {
        Ok(Ok(())) => Outcome::Passed,
        Ok(Err(why)) => Outcome::Failed(why),
        Err(NoNode(why)) => Outcome::Skipped(why),
    };
    vec![
        step("web", "the dashboard: lint, types, size, unit tests", || outcome(web::check())),
        step("browser", "the dashboard in Chromium, against the real server", || outcome(web::browse())),
    ]
}

fn summary(steps: &[Step]) -> Result<(), String> {
    println!();
    let mut failed = Vec::new();
    for step in steps {
        let word = match step.outcome {
            Outcome::Passed => "passed",
            Outcome::Skipped(_) => "skipped",
            Outcome::Failed(_) => {
                failed.push(step.name);
                "FAILED"
            }
        };
        println!("{:<8} {word:<8} {:>7.1} s", step.name, step.took.as_secs_f64());
    }
    let total: Duration = steps.iter().map(|step| step.took).sum();
    println!("{:<17} {:>7.1} s", "in all", total.as_secs_f64());
    if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", "))) }
}
