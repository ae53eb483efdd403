//! `berth admin verify`: verifies the audit log, logs and artifacts.

use std::collections::BTreeMap;
use std::process::ExitCode;

use berth_server::upkeep::verify::{VerifyReport, verify};

use super::InstallationArgs;
use crate::output::JsonArgs;

#[derive(clap::Args)]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    place: InstallationArgs,
    #[command(flatten)]
    json: JsonArgs,
}

pub(super) fn run(args: &VerifyArgs) -> anyhow::Result<ExitCode> {
    let found = args.place.locate_existing()?;
    let storage = found.settings.storage.open()?;
    let mut db = found.open_read_only()?;
    let verified = verify(&mut db, &found.data_dir, &BTreeMap::new(), storage.as_deref())?;
    args.json.output().print_reply(&to_json(&verified), || to_text(&verified))?;
    Ok(exit_code(&verified))
}

pub(super) fn exit_code(verified: &VerifyReport) -> ExitCode {
    if verified.problem_count == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

pub(super) fn to_json(verified: &VerifyReport) -> serde_json::Value {
    serde_json::json!({
        "organizations": verified.organizations,
        "events": verified.events,
        "logs": verified.logs,
        "artifacts": verified.artifacts,
        "problemCount": verified.problem_count,
        "problems": verified.problems,
    })
}

pub(super) fn to_text(verified: &VerifyReport) -> String {
    let VerifyReport { organizations, events, logs, artifacts, problems, problem_count } = verified;
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
