//! Benchmarks. Each makes its own data and server, uses loopback only, and prints its report as Markdown.

mod data;
mod events;
mod lists;
mod load;
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
        Some((name, _)) if ["lists", "events", "--help", "help"].contains(&name.as_str()) => {
            print!("{USAGE}\n{}", events::USAGE);
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
