//! Project tasks. `cargo xtask` without arguments lists them.

mod clients;
mod demo;
mod dist;
mod etcd;
mod language;
mod mutants;
mod npm;
mod postgres;
mod python;
mod schemathesis;
mod served;
mod soak;
mod test;
mod tidy;
mod tool;
mod web;

use std::process::ExitCode;

use tool::{TaskResult, cargo, run};

const USAGE: &str = "\
Tasks of this project:

  cargo xtask demo [ARGS…]    build berth and start it with something to look at; --check plays the README's story instead
  cargo xtask test            all checks and tests; --strict fails when something is skipped
                              --quick leaves out PostgreSQL, API fuzzing, generated clients, the dashboard and slow tests, and installs nothing
                              --long runs all seeds, kills and mutations
  cargo xtask dist            a release: .tar.gz, .deb and checksums in target/dist
  cargo xtask web             the dashboard only: lint, types, unit tests, size, and a real browser
  cargo xtask clients         clients generated from openapi.json only: compile them, and drive a server with them
  cargo xtask schemathesis    API fuzzing only; --max-examples N looks harder than the usual 20
  cargo xtask tidy            the house rules only: file sizes, crate edges, links, licences
  cargo xtask language        measure the wording of comments and names; --list prints offenders, --check fails over a limit
  cargo xtask openapi         write openapi.json and openapi-runner.json again from the handlers
  cargo xtask sim locks       clients, runners and servers that fail, from a seed: --seed N [--runs N] [--trace]
  cargo xtask sim sequences   random commands against the lock, with the same options
  cargo xtask sim runs        random plans, outcomes, commands and crashes of a run, with the same options
  cargo xtask mutants         change the rules in a scratch copy, and run the suites that have to notice: [NAME…]
  cargo xtask soak            servers, runners and a PostgreSQL that are killed under load: --minutes N [--seed S]
  cargo xtask bench lists     measure lists at growing sizes; --help shows its options
  cargo xtask bench events    measure followers of the history, and how long it takes to check
  cargo xtask bench locks     measure claim and release side by side with etcd; --database postgres beside its bare statements
  cargo xtask bench many      measure claims beside held sessions, idle runners and steps that wait
  cargo xtask bench steps     measure what a step costs beside a bare process, and how soon the first begins
  cargo xtask bench logs      measure what a step's output costs, and how soon it is seen; --quick for a quick look
  cargo xtask bench idle      measure how soon a server is there, and what it keeps in memory; --check holds the limits
  cargo xtask bench analysis  let tools fail, and count how often the rules know why
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some((task, rest)) = args.split_first() else {
        print!("{USAGE}");
        return ExitCode::SUCCESS;
    };
    let done = match task.as_str() {
        "demo" => demo::run(rest),
        "test" => test::run(rest),
        "dist" => dist::task(rest),
        "clients" => tool::no_arguments(rest).and_then(|()| clients::task()),
        "schemathesis" => schemathesis::task(rest),
        "tidy" => tool::no_arguments(rest).and_then(|()| tidy::run()),
        "web" => tool::no_arguments(rest).and_then(|()| test::dashboard()),
        "language" => language::run(rest),
        "openapi" => tool::no_arguments(rest).and_then(|()| openapi()),
        "sim" => sim(rest),
        "mutants" => mutants::run(rest),
        "soak" => soak::run(rest),
        "bench" => bench(rest),
        "help" | "--help" | "-h" => {
            print!("{USAGE}");
            Ok(())
        }
        other => Err(format!("there is no task \"{other}\"\n\n{USAGE}")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("xtask: {}", text.trim_end());
            ExitCode::FAILURE
        }
    }
}

/// The test that compares openapi.json with the handlers also writes it.
fn openapi() -> TaskResult {
    println!("writing openapi.json and openapi-runner.json from the handlers");
    run(cargo(["test", "-p", "berth-server", "--test", "it", "openapi"]).env("UPDATE_EXPECT", "1"))
}

fn sim(args: &[String]) -> TaskResult {
    run(cargo(["run", "--quiet", "-p", "berth-sim", "--"]).args(args))
}

fn bench(args: &[String]) -> TaskResult {
    let name = args.first().map(String::as_str).unwrap_or_default();
    if name == "analysis" {
        // Accuracy does not depend on optimization.
        return run(cargo(["run", "--quiet", "-p", "berth-bench", "--"]).args(args));
    }
    // Progress goes to stderr: stdout is the report.
    eprintln!("building the benchmark with optimisation, a cold build takes some minutes");
    if ["locks", "many", "steps", "logs", "idle"].contains(&name) {
        // These measure the `berth` binary, which is built next to the benchmark.
        run(&mut cargo(["build", "--quiet", "--profile", "bench", "-p", "berth"]))?;
    }
    if name == "locks" {
        etcd::prepare();
    }
    run(cargo(["run", "--quiet", "--profile", "bench", "-p", "berth-bench", "--"]).args(args))
}
