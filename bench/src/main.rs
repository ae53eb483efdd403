//! Benchmarks. Each makes its own data and server, uses loopback only, and prints its report as Markdown.

mod data;
mod events;
mod lists;
mod load;
mod locks;
mod options;
mod report;
mod site;

use std::process::ExitCode;

use options::{Options, USAGE};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match args.split_first() {
        Some((name, rest)) if name == "lists" && !rest.iter().any(|arg| arg == "--help") => {
            Options::parse(rest).and_then(|options| lists::run(&options))
        }
        Some((name, rest)) if name == "events" && !rest.iter().any(|arg| arg == "--help") => {
            events::run(rest)
        }
        Some((name, rest)) if name == "locks" && !rest.iter().any(|arg| arg == "--help") => locks::run(rest),
        Some((name, _)) if ["lists", "events", "locks", "--help", "help"].contains(&name.as_str()) => {
            print!("{USAGE}\n{}\n{}", events::USAGE, locks::USAGE);
            Ok(())
        }
        _ => Err(anyhow::anyhow!("name a benchmark\n\n{USAGE}")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}
