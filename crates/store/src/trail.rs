//! The audit trail: events in the order they were committed, numbered without gaps per organization and chained.
//!
//! Here they are sealed in the transaction that records them: one thread writes, so nobody waits for a head. A driver
//! with many writers records them unsealed and hands what was committed to [`chain::seal`], a batch at a time.

use berth_core::event::{Actor, Event, NewEvent, Subject};
use berth_core::id::EventId;

use crate::chain::{self, Head};
use crate::error::StoreError;
use crate::query::events;
use crate::sql::statements;
use crate::tx::Tx;
use crate::value::{text, to_json};

statements! {
    // Only one after the other: a head that was moved by somebody else is a bug, never overwritten.
    Org Upkeep MOVE_HEAD = "INSERT INTO event_heads (org_id, sequence, hash) VALUES ($1, $2, $3)
        ON CONFLICT (org_id) DO UPDATE SET sequence = excluded.sequence, hash = excluded.hash
        WHERE event_heads.sequence = excluded.sequence - 1";
    Org Upkeep APPEND = "INSERT INTO events
        (org_id, sequence, id, kind, occurred_at, actor, request_id, subjects, data, previous_hash, hash)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
    Org Upkeep INDEX = "INSERT INTO event_index (org_id, term, sequence) VALUES ($1, $2, $3)
        ON CONFLICT (org_id, term, sequence) DO NOTHING";
}

/// What an event is found by. The same words are used when it is looked for.
pub(crate) fn term(kind: &str, value: &str) -> String {
    format!("{kind}:{value}")
}

pub(crate) fn terms(kind: &str, actor: &Actor, subjects: &[Subject]) -> Vec<String> {
    let mut terms = vec![term("kind", kind)];
    terms.extend(actor.id.map(|id| term("actor", &id.to_string())));
    terms.extend(subjects.iter().map(|subject| term(&subject.kind, &subject.id)));
    terms
}

pub(crate) fn append(tx: &mut Tx<'_>, event: NewEvent) -> Result<Event, StoreError> {
    let NewEvent { kind, by, subjects, data } = event;
    let mut event = Event {
        id: EventId::from_parts(tx.now(), tx.entropy()?),
        org: tx.org()?,
        sequence: 0,
        kind: kind.as_str().to_owned(),
        occurred_at: tx.now().whole_millis(),
        actor: by.unwrap_or_else(|| tx.actor().clone()),
        request_id: tx.request_id().map(str::to_owned),
        subjects,
        data,
        previous_hash: String::new(),
        hash: String::new(),
    };
    let Head { sequence, hash } = chain::seal(events::head(tx)?, std::slice::from_mut(&mut event))?;
    let params = [
        sequence.into(),
        text(event.id),
        event.kind.as_str().into(),
        event.occurred_at.into(),
        to_json(&event.actor)?.into(),
        event.request_id.as_deref().into(),
        to_json(&event.subjects)?.into(),
        to_json(&event.data)?.into(),
        event.previous_hash.as_str().into(),
        event.hash.as_str().into(),
    ];
    tx.execute_one(&APPEND, &params)?;
    tx.execute_one(&MOVE_HEAD, &[sequence.into(), hash.into()])?;
    for term in terms(&event.kind, &event.actor, &event.subjects) {
        tx.execute(&INDEX, &[term.into(), sequence.into()])?;
    }
    Ok(event)
}
