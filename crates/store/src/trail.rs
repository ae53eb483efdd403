//! The audit trail: events in the order they were committed, numbered without gaps per organization.

use berth_core::event::NewEvent;
use berth_core::id::EventId;

use crate::error::StoreError;
use crate::sql::statements;
use crate::tx::{Read, Tx};
use crate::value::{text, to_json};

statements! {
    Org Upkeep NEXT_SEQUENCE = "INSERT INTO event_heads (org_id, sequence) VALUES ($1, CAST($2 AS BIGINT))
        ON CONFLICT (org_id) DO UPDATE SET sequence = event_heads.sequence + 1 RETURNING sequence";
    Org Upkeep APPEND = "INSERT INTO events (org_id, sequence, id, kind, occurred_at, actor, request_id, subjects, data)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
    Org Upkeep INDEX = "INSERT INTO event_index (org_id, term, sequence) VALUES ($1, $2, $3)
        ON CONFLICT (org_id, term, sequence) DO NOTHING";
}

/// What an event is found by. The same words are used when it is looked for.
pub(crate) fn term(kind: &str, value: &str) -> String {
    format!("{kind}:{value}")
}

pub(crate) fn append(tx: &mut Tx<'_>, event: NewEvent) -> Result<(), StoreError> {
    let NewEvent { kind, subjects, data } = event;
    let sequence = tx
        .row(&NEXT_SEQUENCE, &[1i64.into()])?
        .ok_or_else(|| StoreError::Bug("no next sequence".into()))?
        .int(0)?;
    let id = EventId::from_parts(tx.now(), tx.entropy()?);
    let actor = tx.actor().clone();
    let params = [
        sequence.into(),
        text(id),
        kind.as_str().into(),
        tx.now().into(),
        to_json(&actor)?.into(),
        tx.request_id().into(),
        to_json(&subjects)?.into(),
        to_json(&data)?.into(),
    ];
    tx.execute(&APPEND, &params)?;

    let mut terms = vec![term("kind", kind.as_str())];
    terms.extend(actor.id.map(|id| term("actor", &id.to_string())));
    terms.extend(subjects.iter().map(|subject| term(&subject.kind, &subject.id)));
    for term in terms {
        tx.execute(&INDEX, &[term.into(), sequence.into()])?;
    }
    Ok(())
}
