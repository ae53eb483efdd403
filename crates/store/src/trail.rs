//! The audit trail: events in the order they were committed, numbered without gaps per organization and chained.
//!
//! Here they are sealed in the transaction that records them: one thread writes, so nobody waits for a head. A driver
//! with many writers records them unsealed and hands what was committed to [`chain::seal`], a batch at a time.

use std::collections::HashMap;

use berth_core::event::{Actor, Event, NewEvent, Subject};
use berth_core::id::{EventId, OrgId};

use crate::chain::{self, Head};
use crate::error::StoreError;
use crate::query::events;
use crate::sql::{Conn, statements};
use crate::tx::Tx;
use crate::value::{Value, text, to_json};

statements! {
    // A head that was moved by somebody else is a bug, never overwritten.
    Instance Upkeep MOVE_HEAD = "INSERT INTO event_heads (org_id, sequence, hash) VALUES ($1, $2, $3)
        ON CONFLICT (org_id) DO UPDATE SET sequence = excluded.sequence, hash = excluded.hash
        WHERE event_heads.sequence = $4";
    Org Upkeep APPEND = "INSERT INTO events
        (org_id, sequence, id, kind, occurred_at, actor, request_id, subjects, data, previous_hash, hash)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
    Org Upkeep INDEX = "INSERT INTO event_index (org_id, term, sequence) VALUES ($1, $2, $3)
        ON CONFLICT (org_id, term, sequence) DO NOTHING";
    // Most events are found by four things.
    Org Upkeep INDEX_FOUR = "INSERT INTO event_index (org_id, term, sequence)
        VALUES ($1, $2, $6), ($1, $3, $6), ($1, $4, $6), ($1, $5, $6)
        ON CONFLICT (org_id, term, sequence) DO NOTHING";
}

/// Where the histories end that a connection writes. What one commit moves is written once, with the commit.
#[derive(Debug, Default)]
pub struct Heads {
    known: HashMap<OrgId, Known>,
    /// Moved since the last commit.
    moved: Vec<OrgId>,
    /// What the running job has changed, in case it is undone.
    undo: Vec<(OrgId, Head)>,
}

#[derive(Debug)]
struct Known {
    /// As it stands in the database.
    stored: i64,
    head: Head,
}

impl Heads {
    fn of(&self, org: OrgId) -> Option<Head> {
        self.known.get(&org).map(|known| known.head.clone())
    }

    /// `stored`: what the database had when this head was not known yet.
    fn move_to(&mut self, org: OrgId, before: Head, head: Head) {
        let stored = before.sequence;
        let known = self.known.entry(org).or_insert_with(|| Known { stored, head: before.clone() });
        if known.head.sequence == known.stored {
            self.moved.push(org);
        }
        known.head = head;
        self.undo.push((org, before));
    }

    /// A job begins: what came before it stays, whatever becomes of it.
    pub(crate) fn begin_job(&mut self) {
        self.undo.clear();
    }

    pub(crate) fn undo_job(&mut self) {
        for (org, head) in self.undo.drain(..).rev() {
            if let Some(known) = self.known.get_mut(&org) {
                known.head = head;
            }
        }
        let known = &self.known;
        self.moved.retain(|org| known.get(org).is_some_and(|known| known.head.sequence != known.stored));
    }

    /// Nothing of the transaction was kept: ask the database again.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }
}

/// Writes the heads that moved, as the last act of a transaction.
pub(crate) fn write_heads(conn: &mut dyn Conn) -> Result<(), StoreError> {
    for org in std::mem::take(&mut conn.heads().moved) {
        let Some(known) = conn.heads().known.get_mut(&org) else { continue };
        let Head { sequence, hash } = known.head.clone();
        let stored = std::mem::replace(&mut known.stored, sequence);
        let params = [text(org), sequence.into(), hash.into(), stored.into()];
        if conn.execute(&MOVE_HEAD, &params)? != 1 {
            return Err(StoreError::Bug(format!("the history of {org} was moved by somebody else")));
        }
    }
    Ok(())
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
    let org = event.org;
    let before = match tx.heads().of(org) {
        Some(head) => head,
        None => events::head(tx)?,
    };
    let head = chain::seal(before.clone(), std::slice::from_mut(&mut event))?;
    let sequence = head.sequence;
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
    tx.heads().move_to(org, before, head);
    let terms = terms(&event.kind, &event.actor, &event.subjects);
    for few in terms.chunks(4) {
        let mut params: Vec<Value> = few.iter().map(|term| term.as_str().into()).collect();
        params.push(sequence.into());
        if few.len() == 4 {
            tx.execute(&INDEX_FOUR, &params)?;
            continue;
        }
        for term in few {
            tx.execute(&INDEX, &[term.as_str().into(), sequence.into()])?;
        }
    }
    Ok(event)
}
