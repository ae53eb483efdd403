//! `berth admin verify`: verifies the audit log, logs and artifacts.

use std::collections::BTreeMap;
use std::process::ExitCode;

use berth_server::upkeep::verify::{Verified, verify};

use super::Place;
use crate::cmd::say;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let found = args.place.find_present()?;
    let verified = verify(&mut found.read_only()?, &found.data_dir, &BTreeMap::new())?;
    say(&if args.json { as_json(&verified).to_string() } else { for_people(&verified) })?;
    Ok(code(&verified))
}

pub(super) fn code(verified: &Verified) -> ExitCode {
    if verified.problem_count == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

pub(super) fn as_json(verified: &Verified) -> serde_json::Value {
    serde_json::json!({
        "organizations": verified.organizations,
        "events": verified.events,
        "logs": verified.logs,
        "artifacts": verified.artifacts,
        "problemCount": verified.problem_count,
        "problems": verified.problems,
    })
}

pub(super) fn for_people(verified: &Verified) -> String {
    let Verified { organizations, events, logs, artifacts, problems, problem_count } = verified;
    let seen = format!(
        "Verified {organizations} organizations, {events} events, {logs} logs and {artifacts} artifacts: "
    );
    if *problem_count == 0 {
        return seen + "no problems found.";
    }
    let rest = problem_count - problems.len();
    let rest = if rest > 0 { format!("\n  and {rest} more") } else { String::new() };
    format!("{seen}{problem_count} problems.\n  {}{rest}", problems.join("\n  "))
}
