//! The hash chain of an organization's audit log: each event contains the hash of the event before it.
//!
//! The hash is computed from the event's JSON as the API returns it, in canonical form (members sorted, no spaces) and
//! without the member `hash` itself. So an export can be verified with nothing but a JSON parser and SHA-256. If a head
//! is also stored outside of Berth, it proves that no earlier event was changed.

use std::str::FromStr;

use aws_lc_rs::digest;
use berth_core::event::{ActorType, Event};
use berth_core::id::{EventId, OrgId, TokenId, UserId};
use serde::Serialize;
use serde::ser::Error as _;
use serde_json::Value;

use crate::error::StoreError;
use crate::sql::value::to_json;

/// The `previous_hash` of the first event.
pub const NO_HASH: &str = "sha256:0000000000000000000000000000000000000000000000000000000000000000";
const PREFIX: &str = "sha256:";
const HEX: &[u8; 16] = b"0123456789abcdef";
const HEX_CHARS: usize = 64;
/// Initial buffer size; enough for most events.
const EVENT_BYTES: usize = 1_024;
/// The largest integer that every JSON parser reads without rounding.
const NUMBER_MAX: u64 = 1 << 53;

/// The head of a chain: number and hash of its last event. The hash depends on every earlier event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditHead {
    pub sequence: i64,
    pub hash: String,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a head: expected a number, a colon and a hash, like 1042:sha256:9f86d0…")]
pub struct InvalidHead;

impl AuditHead {
    /// The head of an empty chain.
    pub fn start() -> Self {
        Self { sequence: 0, hash: NO_HASH.into() }
    }

    /// Parses a head from user input.
    pub fn parse(sequence: i64, hash: &str) -> Result<Self, InvalidHead> {
        let hex = hash.strip_prefix(PREFIX).ok_or(InvalidHead)?;
        let is_hex = hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if sequence < 0 || hex.len() != HEX_CHARS || !is_hex {
            return Err(InvalidHead);
        }
        Ok(Self { sequence, hash: hash.to_owned() })
    }
}

impl FromStr for AuditHead {
    type Err = InvalidHead;
    fn from_str(text: &str) -> Result<Self, InvalidHead> {
        let (sequence, hash) = text.split_once(':').ok_or(InvalidHead)?;
        Self::parse(sequence.parse().map_err(|_| InvalidHead)?, hash)
    }
}

/// Assigns numbers and hashes to events that follow `head`, in the given order. Returns the new head.
pub fn seal_events(head: AuditHead, events: &mut [Event]) -> Result<AuditHead, StoreError> {
    let mut head = head;
    for event in events {
        if !has_plain_numbers(&event.data) {
            return Err(StoreError::Bug(format!(
                "{}: numbers in events must be integers below 2^53",
                event.kind
            )));
        }
        event.sequence = head.sequence + 1;
        event.previous_hash = head.hash;
        event.hash = hash_event(event)?;
        head = AuditHead { sequence: event.sequence, hash: event.hash.clone() };
    }
    Ok(head)
}

/// An event with its hash, as canonical JSON. Used by event streams and exports.
pub fn canonical_line(event: &Event) -> Result<String, StoreError> {
    to_json(&CanonicalEvent::from_event(event, Some(&event.hash)))
}

pub(super) fn hash_event(event: &Event) -> Result<String, StoreError> {
    let mut text = Vec::with_capacity(EVENT_BYTES);
    serde_json::to_writer(&mut text, &CanonicalEvent::from_event(event, None))
        .map_err(|error| StoreError::Bug(format!("cannot write JSON: {error}")))?;
    Ok(sha256(&text))
}

pub(super) fn sha256(text: &[u8]) -> String {
    let mut out = String::with_capacity(PREFIX.len() + HEX_CHARS);
    out.push_str(PREFIX);
    for byte in digest::digest(&digest::SHA256, text).as_ref() {
        // Hot path: calling `format!` for every byte would take longer than computing the hash.
        out.extend([byte >> 4, byte & 15].map(|digit| char::from(HEX[usize::from(digit)])));
    }
    out
}

fn has_plain_numbers(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::String(_) => true,
        Value::Number(number) => number.as_i64().is_some_and(|whole| whole.unsigned_abs() <= NUMBER_MAX),
        Value::Array(items) => items.iter().all(has_plain_numbers),
        Value::Object(members) => members.values().all(has_plain_numbers),
    }
}

/// JSON with the members of every object sorted by name.
pub(super) struct SortedJson<'a>(pub(super) &'a Value);

impl Serialize for SortedJson<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Object(members) => {
                let mut sorted: Vec<_> = members.iter().collect();
                sorted.sort_unstable_by_key(|(name, _)| *name);
                serializer.collect_map(sorted.into_iter().map(|(name, value)| (name, SortedJson(value))))
            }
            Value::Array(items) => serializer.collect_seq(items.iter().map(SortedJson)),
            Value::Number(number) if !number.is_i64() && !number.is_u64() => {
                Err(S::Error::custom("a number is not an integer"))
            }
            plain => plain.serialize(serializer),
        }
    }
}

/// The canonical form of an event. Members are sorted by name.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CanonicalEvent<'a> {
    actor: CanonicalActor<'a>,
    data: SortedJson<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hash: Option<&'a str>,
    id: EventId,
    kind: &'a str,
    occurred_at: String,
    organization_id: OrgId,
    previous_hash: &'a str,
    request_id: Option<&'a str>,
    sequence: i64,
    subjects: Vec<CanonicalSubject<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CanonicalActor<'a> {
    id: Option<UserId>,
    name: &'a str,
    token_id: Option<TokenId>,
    #[serde(rename = "type")]
    kind: ActorType,
}

#[derive(Serialize)]
struct CanonicalSubject<'a> {
    id: &'a str,
    name: Option<&'a str>,
    #[serde(rename = "type")]
    kind: &'a str,
}

impl<'a> CanonicalEvent<'a> {
    fn from_event(event: &'a Event, hash: Option<&'a str>) -> Self {
        let subjects = event.subjects.iter().map(|subject| CanonicalSubject {
            id: &subject.id,
            name: subject.name.as_deref(),
            kind: &subject.kind,
        });
        Self {
            actor: CanonicalActor {
                id: event.actor.id,
                name: &event.actor.name,
                token_id: event.actor.token,
                kind: event.actor.kind,
            },
            data: SortedJson(&event.data),
            hash,
            id: event.id,
            kind: &event.kind,
            occurred_at: event.occurred_at.to_string(),
            organization_id: event.org,
            previous_hash: &event.previous_hash,
            request_id: event.request_id.as_deref(),
            sequence: event.sequence,
            subjects: subjects.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_json_is_sorted_without_spaces() {
        let value: Value =
            serde_json::from_str(r#"{"b": [{"z": 1, "a": "é\n\u001F"}], "B": null, "a": -7}"#).unwrap();
        let text = serde_json::to_string(&SortedJson(&value)).unwrap();
        assert_eq!(text, r#"{"B":null,"a":-7,"b":[{"a":"é\n\u001f","z":1}]}"#);
        assert!(serde_json::to_string(&SortedJson(&serde_json::json!([0.5]))).is_err());
    }

    #[test]
    fn seal_refuses_numbers_that_json_parsers_round() {
        for good in ["{}", "[1, -1]", r#"{"a": {"b": [9007199254740992]}}"#] {
            assert!(has_plain_numbers(&serde_json::from_str(good).unwrap()), "{good}");
        }
        for bad in ["0.5", "[9007199254740993]", r#"{"a": 1e3}"#, "18446744073709551615"] {
            assert!(!has_plain_numbers(&serde_json::from_str(bad).unwrap()), "{bad}");
        }
    }

    #[test]
    fn head_parses_a_number_and_a_hash() {
        let head = AuditHead { sequence: 7, hash: NO_HASH.into() };
        assert_eq!(format!("7:{NO_HASH}").parse(), Ok(head));
        for bad in
            ["", "7", "7:", "x:sha256:00", "-1:sha256:00", &format!("-1:{NO_HASH}"), &format!("7:{NO_HASH}0")]
        {
            assert_eq!(bad.parse::<AuditHead>(), Err(InvalidHead), "{bad}");
        }
        assert!(AuditHead::parse(1, &sha256(b"x").to_uppercase()).is_err());
        assert_eq!(sha256(b"abc"), "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
