//! Runs simulations from a seed, and prints the trace of a run that violates a rule.

use std::process::ExitCode;

use berth_sim::agents::{self, AgentTally};
use berth_sim::drill::{self, DrillTally};
use berth_sim::{locks, runs};

const USAGE: &str = "\
usage: berth-sim locks     --seed N [--runs N] [--trace]   clients, runners and servers that fail
       berth-sim sequences --seed N [--runs N] [--trace]   random command sequences
       berth-sim agents    --seed N [--runs N]             agents that crash while they hold environments
       berth-sim runs      --seed N [--runs N] [--trace]   runs with random plans, outcomes, commands and crashes
";

struct SimOptions {
    seed: u64,
    runs: u64,
    trace: bool,
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let done = match args.split_first() {
        Some((what, rest)) if what == "locks" => parse_options(rest).and_then(|options| run_drill(&options)),
        Some((what, rest)) if what == "sequences" => {
            parse_options(rest).and_then(|options| run_sequences(&options))
        }
        Some((what, rest)) if what == "agents" => {
            parse_options(rest).and_then(|options| run_agents(&options))
        }
        Some((what, rest)) if what == "runs" => parse_options(rest).and_then(|options| run_runs(&options)),
        _ => Err(USAGE.to_owned()),
    };
    match done {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(text) => {
            eprintln!("{}", text.trim_end());
            ExitCode::FAILURE
        }
    }
}

fn parse_options(args: &[String]) -> Result<SimOptions, String> {
    let mut options = SimOptions { seed: 0, runs: 1, trace: false };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut number = || {
            let value = args.next().and_then(|value| value.parse().ok());
            value.ok_or_else(|| format!("{arg} needs a number\n{USAGE}"))
        };
        match arg.as_str() {
            "--seed" => options.seed = number()?,
            "--runs" => options.runs = number()?,
            "--trace" => options.trace = true,
            _ => return Err(format!("unknown option {arg}\n{USAGE}")),
        }
    }
    Ok(options)
}

fn run_drill(options: &SimOptions) -> Result<String, String> {
    let mut total = DrillTally::default();
    for seed in options.seed..options.seed + options.runs {
        if options.trace {
            println!("{}", drill::trace(seed));
        }
        total += drill::run(seed).map_err(|broken| broken.to_string())?;
    }
    Ok(format!("{} runs from seed {}: {total}", options.runs, options.seed))
}

fn run_sequences(options: &SimOptions) -> Result<String, String> {
    for seed in options.seed..options.seed + options.runs {
        let commands = locks::sequence(seed);
        if options.trace {
            println!("{}", locks::trace(&commands));
        }
        locks::run(&commands).map_err(|failed| {
            format!("{failed}\nseed {seed}\nagain: cargo xtask sim sequences --seed {seed}")
        })?;
    }
    Ok(format!("{} sequences from seed {}: no promise was broken", options.runs, options.seed))
}

fn run_agents(options: &SimOptions) -> Result<String, String> {
    let mut total = AgentTally::default();
    for seed in options.seed..options.seed + options.runs {
        total += agents::run(seed)?;
    }
    Ok(format!("{} runs from seed {}: {total}", options.runs, options.seed))
}

fn run_runs(options: &SimOptions) -> Result<String, String> {
    for seed in options.seed..options.seed + options.runs {
        let (sequence, scenario) = (runs::sequence(seed), runs::scenario(seed));
        if options.trace {
            println!("{}\n{scenario}", runs::trace(&sequence));
        }
        let done = runs::run(&sequence).map(drop);
        done.and_then(|()| runs::compare(&scenario))
            .map_err(|failed| format!("{failed}\nseed {seed}\nagain: cargo xtask sim runs --seed {seed}"))?;
    }
    Ok(format!("{} runs from seed {}: no promise was broken", options.runs, options.seed))
}
