//! `cargo xtask soak`: runs the soak test of `crates/berth` for a given time.

use berth_testkit::outcome::LONG_VARIABLE;

use crate::postgres;
use crate::tool::{TaskResult, cargo, run as run_command};

const USAGE: &str = "usage: cargo xtask soak [--minutes N] [--seed S]";
const MINUTES: u64 = 10;
const TEST: &str = "soak::soak_with_failing_servers_runners_and_database_stays_consistent";

pub(crate) fn run(args: &[String]) -> TaskResult {
    let (mut minutes, mut seed) = (MINUTES, None);
    for pair in args.chunks(2) {
        match pair {
            [name, value] if name == "--minutes" => minutes = number(value)?,
            [name, value] if name == "--seed" => seed = Some(number(value)?),
            _ => return Err(USAGE.into()),
        }
    }
    let bin = match postgres::find() {
        Some(found) => found,
        None => postgres::install()?,
    };
    println!("running for {minutes} minutes; repeat the same choices with --seed");
    let mut command = cargo(["test", "--quiet", "-p", "berth", "--test", "it", "--"]);
    command.args(["--exact", TEST, "--nocapture"]).env(berth_testkit::BIN_VARIABLE, bin);
    command.env("SOAK_MINUTES", minutes.to_string()).env(LONG_VARIABLE, "1");
    if let Some(seed) = seed {
        command.env("SOAK_SEED", seed.to_string());
    }
    run_command(&mut command)
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().ok().filter(|number| *number > 0).ok_or_else(|| format!("\"{text}\" is no number\n{USAGE}"))
}
