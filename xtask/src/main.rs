//! Project tasks. `cargo xtask` without arguments lists them.

mod clients;
mod demo;
mod demo_server;
mod dist;
mod etcd;
mod language;
mod mutants;
mod npm;
mod postgres;
mod python;
mod schemathesis;
mod sdk;
mod soak;
mod test;
mod tidy;
mod tool;
mod web;

use std::path::Path;
use std::process::{Command, ExitCode};

use tool::{TaskResult, cargo, run};

const USAGE: &str = "\
Tasks of this project:

  cargo xtask demo [ARGS…]    build berth and start the demo; --check runs the tests of the demo instead
  cargo xtask test            run all checks and tests; --strict fails when something is skipped
                              --quick skips PostgreSQL, API fuzzing, generated clients, the dashboard and slow tests, and installs nothing
                              --long runs all seeds, kills and mutations
  cargo xtask dist            build a release in target/dist: .tar.gz, .deb, container image, Helm chart, SBOMs and checksums
  cargo xtask web             check the dashboard only: lint, types, unit tests, size, browser tests
  cargo xtask clients         generate clients from openapi.json, compile them and run them against a server
  cargo xtask sdk             build the TypeScript and Python packages; --test installs them into empty projects and tests them
  cargo xtask schemathesis    fuzz the API; --max-examples N sends more than the default of 20 examples
  cargo xtask tidy            check the repository rules only: file sizes, crate dependencies, links, licences, words, commits
  cargo xtask language        measure the wording of comments and names; --list prints offenders, --check fails over a limit
  cargo xtask openapi         regenerate openapi.json and openapi-runner.json from the handlers
  cargo xtask sim locks       simulate clients, runners and servers that fail: --seed N [--runs N] [--trace]
  cargo xtask sim sequences   apply random commands to the lock, same options
  cargo xtask sim agents      simulate agents that crash while they hold environments: --seed N [--runs N]
  cargo xtask sim runs        simulate runs with random plans, outcomes, commands and crashes, same options
  cargo xtask mutants         mutate the rules in a scratch copy and run the suites that must catch it: [NAME…]
  cargo xtask soak            kill servers, runners and PostgreSQL under load: --minutes N [--seed S]; --upgrade adds a previous version
  cargo xtask bench all       run most benchmarks and write bench/report.md with plots
  cargo xtask bench lists     measure list pages at growing sizes; --help shows its options
  cargo xtask bench events    measure event streams and the verification of the audit log
  cargo xtask bench locks     compare claim and release with etcd; --database postgres compares with bare statements
  cargo xtask bench many      measure claims next to held sessions, idle runners and waiting steps
  cargo xtask bench steps     compare a step with a bare process, and measure how soon the first step starts
  cargo xtask bench sources   compare a step with the files of a commit with `git worktree` and a bare process
  cargo xtask bench containers  compare a step in a container with `podman run`
  cargo xtask bench logs      measure cost and latency of step output; --quick for a short run
  cargo xtask bench idle      measure start-up time and idle memory; --check enforces the limits
  cargo xtask bench dashboard measure Home in Chromium with 20 and 200 pipelines
  cargo xtask bench analysis  measure the accuracy of the analysis rules on real failures
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
        "sdk" => sdk::task(rest),
        "schemathesis" => schemathesis::task(rest),
        "tidy" => tool::no_arguments(rest).and_then(|()| tidy::run()),
        "web" => tool::no_arguments(rest).and_then(|()| test::check_dashboard()),
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
        other => Err(format!("unknown task \"{other}\"\n\n{USAGE}")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("xtask: {}", text.trim_end());
            ExitCode::FAILURE
        }
    }
}

/// Runs the test that compares openapi.json with the handlers, in the mode in which it writes the file.
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
        // Run without optimization, because accuracy does not depend on it.
        return run(cargo(["run", "--quiet", "-p", "berth-bench", "--"]).args(args));
    }
    if ["all", "dashboard", "idle"].contains(&name) {
        // The binary embeds the dashboard.
        web::prepare()?;
    }
    if ["all", "dashboard"].contains(&name) && !Path::new(web::CHROMIUM).exists() {
        tool::apt_install(&["chromium"])?;
    }
    if ["all", "locks"].contains(&name) {
        etcd::prepare();
    }
    let needs_postgres = name == "all" || args.iter().any(|arg| arg == "postgres");
    let postgres_bin = if needs_postgres { postgres::prepare() } else { None };
    // Print progress to stderr, because stdout is for the report.
    eprintln!("building berth and the benchmark with optimizations; a cold build takes some minutes");
    // In one command, so that both use the same dependencies: most benchmarks measure the `berth` binary next to them.
    run(&mut cargo(["build", "--quiet", "--profile", "bench", "-p", "berth", "-p", "berth-bench"]))?;
    let own = std::env::current_exe().map_err(|error| format!("cannot find my own program: {error}"))?;
    let target = own.ancestors().nth(2).ok_or("my own program is not in a target directory")?;
    let mut bench = Command::new(target.join("release/berth-bench"));
    bench.envs(postgres_bin.map(|bin| (berth_testkit::BIN_VARIABLE, bin)));
    run(bench.args(args))
}
