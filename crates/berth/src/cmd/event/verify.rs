//! An export of the history, checked without a server.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use berth_store::chain::Head;
use berth_store::chain::export::{Checked, verify};
use serde_json::json;

use crate::output::say;

pub(super) fn run(file: &Path, head: Option<&Head>, json: bool) -> anyhow::Result<ExitCode> {
    let name = file.display().to_string();
    let opened = File::open(file).with_context(|| format!("cannot read {name}"))?;
    let checked = verify(BufReader::new(opened), head.cloned()).with_context(|| name.clone())?;
    say(&if json { as_json(&checked).to_string() } else { for_people(&checked, &name) })?;
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
