//! Exports of the audit log: one event per line in canonical JSON, oldest first. The last line is the head of the hash
//! chain.
//!
//! If retention has removed events, the first line contains the number and hash of the last removed event.

use std::io::{BufRead, Read as _};

use berth_core::id::OrgId;
use serde_json::{Value, json};

use super::hash_chain::{SortedJson, sha256};
use super::verify::removes_through;
use super::{AuditHead, AuditVerdict, ChainVerifier, SealedEvent};
use crate::error::StoreError;
use crate::sql::value::to_json;

const START: &str = "start";
const HEAD: &str = "head";
/// Maximum length of a line. No event is that long.
const LINE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The last line of an export: the head of the hash chain.
pub fn head_line(org: OrgId, head: &AuditHead) -> Result<String, StoreError> {
    place_line(HEAD, org, head)
}

/// The first line of an export, which names the last event that retention removed. `None` if nothing was removed.
pub fn start_line(org: OrgId, start: &AuditHead) -> Result<Option<String>, StoreError> {
    (start.sequence > 0).then(|| place_line(START, org, start)).transpose()
}

fn place_line(name: &str, org: OrgId, place: &AuditHead) -> Result<String, StoreError> {
    let place = json!({ "organizationId": org, "sequence": place.sequence, "hash": place.hash });
    to_json(&SortedJson(&json!({ name: place })))
}

#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    #[error("this is not an export of events: {0}")]
    NotAnExport(String),
    #[error("cannot read the export: {0}")]
    Io(#[from] std::io::Error),
}

/// The result of verifying an exported file.
#[derive(Debug, PartialEq, Eq)]
pub struct VerifiedExport {
    pub organization: Option<String>,
    pub verdict: AuditVerdict,
    /// Line number of the first problem, starting at 1.
    pub line: Option<u64>,
}

enum ExportLine {
    Event(SealedEvent),
    Start(String, AuditHead),
    Head(String, AuditHead),
}

/// Why a line is not valid in an export.
enum LineFault {
    /// The line does not come from an export.
    Foreign(String),
    Altered(String),
}

pub fn verify_export(mut file: impl BufRead, kept: Option<AuditHead>) -> Result<VerifiedExport, ExportError> {
    let mut verifier = ChainVerifier::new(kept);
    let mut head: Option<AuditHead> = None;
    let (mut number, mut problem_line, mut bytes) = (0, None, Vec::new());
    loop {
        bytes.clear();
        if file.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut bytes)? == 0 {
            break;
        }
        number += 1;
        match parse_line(bytes.strip_suffix(b"\n").unwrap_or(&bytes)) {
            _ if head.is_some() => verifier.report_unexpected("there is a line after the head"),
            Ok(ExportLine::Event(event)) => verifier.verify_event(&event),
            Ok(ExportLine::Start(organization, start)) if number == 1 => {
                verifier.expect_organization(organization);
                verifier.skip_to(start);
            }
            Ok(ExportLine::Start(..)) => verifier.report_unexpected("the start is not the first line"),
            Ok(ExportLine::Head(organization, end)) => {
                if verifier.organization().is_some_and(|known| known != organization) {
                    verifier.report_unexpected("the head belongs to another organization");
                }
                head = Some(end);
            }
            Err(LineFault::Foreign(why)) if number == 1 => {
                return Err(ExportError::NotAnExport(format!("line 1 {why}")));
            }
            Err(LineFault::Foreign(why) | LineFault::Altered(why)) => {
                verifier.report_unreadable(&format!("it {why}"));
            }
        }
        if verifier.problem().is_some() {
            problem_line.get_or_insert(number);
        }
    }
    if number == 0 {
        return Err(ExportError::NotAnExport("it is empty".into()));
    }
    let organization = verifier.organization().map(str::to_owned);
    let verdict = verifier.finish(head.as_ref());
    let line = verdict.problem.as_ref().map(|_| problem_line.unwrap_or(number));
    Ok(VerifiedExport { organization, verdict, line })
}

fn parse_line(bytes: &[u8]) -> Result<ExportLine, LineFault> {
    let foreign = |why: &str| LineFault::Foreign(why.to_owned());
    let text = str::from_utf8(bytes).map_err(|_| foreign("is not UTF-8"))?;
    let mut value: Value = serde_json::from_str(text).map_err(|_| foreign("is not JSON"))?;
    read_line(&mut value, text)
}

fn read_line(value: &mut Value, text: &str) -> Result<ExportLine, LineFault> {
    let is_canonical = serde_json::to_string(&SortedJson(value)).is_ok_and(|again| again == text);
    for (name, as_line) in [(START, ExportLine::Start as fn(_, _) -> _), (HEAD, ExportLine::Head)] {
        let Some(place) = value.get(name).filter(|_| value.get("sequence").is_none()) else { continue };
        let found = (|| {
            let at = AuditHead::parse(place.get("sequence")?.as_i64()?, place.get("hash")?.as_str()?).ok()?;
            Some(as_line(place.get("organizationId")?.as_str()?.to_owned(), at))
        })();
        let is_whole = value.as_object().is_some_and(|all| all.len() == 1)
            && place.as_object().is_some_and(|all| all.len() == 3);
        let found = found.ok_or_else(|| LineFault::Altered(format!("is a {name} without number or hash")))?;
        return if is_canonical && is_whole { Ok(found) } else { Err(altered_line()) };
    }
    let text_of = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    let claimed = (|| {
        let sequence = value.get("sequence")?.as_i64()?;
        let previous_hash = text_of(value, "previousHash")?;
        Some((text_of(value, "organizationId")?, sequence, previous_hash, text_of(value, "hash")?))
    })();
    let Some((organization, sequence, previous_hash, hash)) = claimed else {
        return Err(LineFault::Foreign("is not an event with number and hashes".into()));
    };
    // The line was reformatted: it has extra spaces, members in another order, or a duplicate member. It describes the
    // same event but is not the text that was exported.
    if !is_canonical {
        return Err(altered_line());
    }
    if let Some(members) = value.as_object_mut() {
        members.shift_remove("hash");
    }
    let content =
        serde_json::to_string(&SortedJson(value)).map_err(|error| LineFault::Altered(error.to_string()))?;
    let removes_through = text_of(value, "kind").and_then(|kind| removes_through(&kind, value.get("data")?));
    let computed = sha256(content.as_bytes());
    Ok(ExportLine::Event(SealedEvent {
        organization,
        sequence,
        previous_hash,
        hash,
        computed,
        removes_through,
    }))
}

fn altered_line() -> LineFault {
    LineFault::Altered("is not written as an export writes it".into())
}
