//! Benchmarks. Each one creates its own data and server, uses only loopback, and prints a report in Markdown.

mod all;
mod analysis;
mod bench_server;
mod containers;
mod dashboard;
mod data;
mod deploy;
mod events;
mod idle;
mod lists;
mod load;
mod locks;
mod logs;
mod many;
mod options;
mod process;
mod report;
mod site;
mod sources;
mod steps;

use std::process::ExitCode;

use options::ListOptions;

struct Benchmark {
    name: &'static str,
    usage: &'static str,
    run: fn(&[String]) -> anyhow::Result<()>,
}

const BENCHMARKS: &[Benchmark] = &[
    Benchmark { name: "all", usage: all::USAGE, run: all::run },
    Benchmark { name: "lists", usage: options::USAGE, run: |args| lists::run(&ListOptions::parse(args)?) },
    Benchmark { name: "events", usage: events::USAGE, run: events::run },
    Benchmark { name: "locks", usage: locks::USAGE, run: locks::run },
    Benchmark { name: "many", usage: many::USAGE, run: many::run },
    Benchmark { name: "steps", usage: steps::USAGE, run: steps::run },
    Benchmark { name: "sources", usage: sources::USAGE, run: sources::run },
    Benchmark { name: "containers", usage: containers::USAGE, run: containers::run },
    Benchmark { name: "logs", usage: logs::USAGE, run: logs::run },
    Benchmark { name: "idle", usage: idle::USAGE, run: idle::run },
    Benchmark { name: "dashboard", usage: dashboard::USAGE, run: dashboard::run },
    Benchmark { name: "analysis", usage: analysis::USAGE, run: analysis::run },
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let usage = BENCHMARKS.iter().map(|benchmark| benchmark.usage).collect::<Vec<_>>().join("\n");
    let wants_help = args.iter().any(|arg| arg == "--help" || arg == "help");
    let named = args.first().and_then(|name| BENCHMARKS.iter().find(|known| known.name == name));
    let outcome = match named {
        Some(benchmark) if wants_help => {
            print!("{}", benchmark.usage);
            Ok(())
        }
        Some(benchmark) => (benchmark.run)(&args[1..]),
        None if wants_help => {
            print!("{usage}");
            Ok(())
        }
        None => Err(anyhow::anyhow!("name a benchmark\n\n{usage}")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}
