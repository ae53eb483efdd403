//! Verifies an exported audit log offline.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use berth_store::audit::AuditHead;
use berth_store::audit::export::{VerifiedExport, verify_export};
use serde_json::json;

use crate::output::CommandOutput;

pub(super) fn run(file: &Path, head: Option<&AuditHead>, out: &CommandOutput) -> anyhow::Result<ExitCode> {
    let name = file.display().to_string();
    let opened = File::open(file).with_context(|| format!("cannot read {name}"))?;
    let checked = verify_export(BufReader::new(opened), head.cloned()).with_context(|| name.clone())?;
    out.print_reply(&to_json(&checked), || to_text(&checked, &name))?;
    // If the given head is too old to be compared with the log, the verification counts as failed.
    let is_good = checked.verdict.problem.is_none() && !checked.verdict.head_is_too_old;
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn to_json(checked: &VerifiedExport) -> serde_json::Value {
    let VerifiedExport { organization, verdict, line } = checked;
    json!({
        "valid": verdict.problem.is_none(),
        "organizationId": organization,
        "checked": verdict.checked,
        "firstSequence": verdict.first,
        "headIsTooOld": verdict.head_is_too_old,
        "head": { "sequence": verdict.head.sequence, "hash": verdict.head.hash },
        "firstProblem": verdict.problem.as_ref().map(|problem| json!({
            "line": line,
            "sequence": problem.sequence,
            "reason": problem.reason.as_str(),
            "detail": problem.detail,
        })),
    })
}

pub(super) fn range_note(first: i64) -> String {
    if first > 1 { format!(" from event {first}; older ones were removed") } else { String::new() }
}

pub(super) fn old_head_note(is_too_old: bool, first: i64) -> String {
    let last = first - 1;
    let text = "the given head is older than the retained events and cannot be compared; use a head of event";
    if is_too_old { format!("\n{text} {last} or later") } else { String::new() }
}

fn to_text(checked: &VerifiedExport, name: &str) -> String {
    let VerifiedExport { verdict, line, .. } = checked;
    let (count, head) = (verdict.checked, &verdict.head);
    let (since, too_old) = (range_note(verdict.first), old_head_note(verdict.head_is_too_old, verdict.first));
    match &verdict.problem {
        None => {
            format!("{name}: valid ({count} events{since})\nhead {}:{}{too_old}", head.sequence, head.hash)
        }
        Some(problem) => format!(
            "{name}: invalid ({count} intact events before the first problem)\n{name}:{}: event {}, {}: {}",
            line.unwrap_or_default(),
            problem.sequence,
            problem.reason.as_str(),
            problem.detail,
        ),
    }
}
