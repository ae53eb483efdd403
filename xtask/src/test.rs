//! `cargo xtask test`: what a newcomer and continuous integration run.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use berth_testkit::Server;

use crate::schemathesis::{self, Verdict};
use crate::tool::{cargo, cargo_has, run as run_command};
use crate::web::{self, NoNode};
use crate::{npm, postgres, programs};

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
    let mut found = Found::default();
    let mut steps = vec![step("tools", "looking for a PostgreSQL server and programs from npm", || {
        tools(quick, &mut found)
    })];
    steps.push(step("format", "cargo fmt --all --check", format));
    if !quick {
        steps.push(step("lint", "cargo clippy, a cold build takes some minutes", lint));
    }
    steps.push(step("tests", "all tests, a cold build takes some minutes", || tests(&found, &[])));
    steps.push(step("postgres", "the store, environments and the engine once more, on PostgreSQL", || {
        match &found.server {
            None => Outcome::Skipped(postgres::missing("see above")),
            Some(_) => tests(&found, &[(berth_testkit::DATABASE_VARIABLE, "postgres")]),
        }
    }));
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

/// What tests use and are told of.
#[derive(Default)]
struct Found {
    postgres: Option<PathBuf>,
    /// One for all tests: it is removed when they have ended.
    server: Option<Server>,
    npm: Option<PathBuf>,
}

fn tools(quick: bool, into: &mut Found) -> Outcome {
    if !quick {
        programs::prepare();
    }
    let packages = match npm::find() {
        Some(found) => Ok(found),
        None if quick => Err(npm::missing("--quick installs nothing")),
        None => npm::install(),
    };
    let packages = packages.map(|dir| {
        println!("    programs from npm in {}", dir.display());
        into.npm = Some(dir);
    });
    let found = match postgres::find() {
        Some(found) => Ok(found),
        None if quick => Err(postgres::missing("--quick installs nothing")),
        None => postgres::install(),
    };
    match found {
        Ok(found) => {
            println!("    PostgreSQL in {}", found.display());
            match Server::start(&found) {
                Ok(server) => into.server = Some(server),
                Err(why) => return Outcome::Failed(format!("PostgreSQL does not start: {why}")),
            }
            into.postgres = Some(found);
            packages.map_or_else(Outcome::Skipped, |()| Outcome::Passed)
        }
        Err(why) => Outcome::Skipped(
            [Err(why), packages].into_iter().filter_map(Result::err).collect::<Vec<_>>().join(". "),
        ),
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

/// Tests that show what a database is for. The same programs as before: nothing is built anew.
const ON_POSTGRES: &str = "(package(berth-store) & test(/^(differential|feed|found|lists|once|registries|transactions)::/) & not test(a_mistake_on_one_side)) | \
     (package(berth-server) & test(/^(environments|events|follow|once)::/)) | \
     (package(berth-server) & test(/^engine::/) & not test(/^engine::model::/)) | \
     (package(berth) & test(/^crash::/))";

fn tests(found: &Found, told: &[(&str, &str)]) -> Outcome {
    let has_nextest = cargo_has("nextest");
    if !has_nextest && !told.is_empty() {
        return Outcome::Skipped("cargo-nextest is not installed: `cargo install cargo-nextest`".into());
    }
    let mut command = if has_nextest {
        cargo(["nextest", "run", "--workspace", "--no-fail-fast"])
    } else {
        println!("    cargo-nextest is not installed; `cargo test` does the same, slower");
        // Documentation has no tests; building them takes as long as running all others.
        cargo(["test", "--quiet", "--workspace", "--all-targets", "--no-fail-fast"])
    };
    if !told.is_empty() {
        command.args(["-E", ON_POSTGRES]).envs(told.iter().copied());
    }
    if let Some(bin) = &found.postgres {
        command.env(berth_testkit::BIN_VARIABLE, bin);
    }
    if let Some(server) = &found.server {
        command.env(berth_testkit::SERVER_VARIABLE, server.url("postgres"));
    }
    if let Some(dir) = &found.npm {
        command.env(npm::VARIABLE, dir);
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
        step("browser", "the dashboard in Chromium, against the real server", || outcome(web::browse(&[]))),
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
