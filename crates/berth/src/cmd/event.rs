//! `berth event`: the history on this machine.

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use berth_store::chain::Head;
use berth_store::chain::export::{Checked, verify};
use serde_json::json;

use super::say;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Check an export without a server: any edit, removal, insertion or swap is found, and where
    Verify {
        /// The file, as GET …/events/export gave it
        file: PathBuf,
        /// A head kept elsewhere: then a history that was cut or written anew is found, too
        #[arg(long, value_name = "SEQUENCE:HASH")]
        head: Option<Head>,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(command: &Command) -> anyhow::Result<ExitCode> {
    let Command::Verify { file, head, json } = command;
    let name = file.display().to_string();
    let opened = File::open(file).with_context(|| format!("cannot read {name}"))?;
    let checked = verify(BufReader::new(opened), head.clone()).with_context(|| name.clone())?;
    say(&if *json { as_json(&checked).to_string() } else { for_people(&checked, &name) })?;
    Ok(if checked.verdict.problem.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn as_json(checked: &Checked) -> serde_json::Value {
    let Checked { organization, verdict, line } = checked;
    json!({
        "valid": verdict.problem.is_none(),
        "organizationId": organization,
        "checked": verdict.checked,
        "head": { "sequence": verdict.head.sequence, "hash": verdict.head.hash },
        "firstProblem": verdict.problem.as_ref().map(|problem| json!({
            "line": line,
            "sequence": problem.sequence,
            "reason": problem.reason.as_str(),
            "detail": problem.detail,
        })),
    })
}

fn for_people(checked: &Checked, name: &str) -> String {
    let Checked { verdict, line, .. } = checked;
    let (count, head) = (verdict.checked, &verdict.head);
    match &verdict.problem {
        None => format!("{name}: valid ({count} events)\nhead {}:{}", head.sequence, head.hash),
        Some(problem) => format!(
            "{name}: not valid ({count} events before this are as they were recorded)\n{name}:{}: event {}, {}: {}",
            line.unwrap_or_default(),
            problem.sequence,
            problem.reason.as_str(),
            problem.detail,
        ),
    }
}
