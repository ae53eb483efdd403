//! The audit trail: events in the order they were committed, numbered without gaps per organization and chained.
//!
//! They are sealed in the transaction that records them: whoever writes has the organization to itself until the commit, so
//! the order of numbers is the order of commits.

use std::collections::HashMap;

use berth_core::event::{Actor, Event, NewEvent, Subject};
use berth_core::id::{EventId, OrgId};

use crate::chain::{self, Head};
use crate::error::StoreError;
use crate::query::events;
use crate::sql::{Conn, Statement, statements};
use crate::tx::Tx;
use crate::value::{text, to_json};

statements! {
    // A head that was moved by somebody else is a bug, never overwritten.
    Instance Upkeep MOVE_HEAD = "INSERT INTO event_heads (org_id, sequence, hash, indexed) VALUES ($1, $2, $3, $5)
        ON CONFLICT (org_id) DO UPDATE SET sequence = excluded.sequence, hash = excluded.hash,
          indexed = excluded.indexed
        WHERE event_heads.sequence = $4";
    Org Upkeep APPEND = "INSERT INTO events
        (org_id, sequence, id, kind, occurred_at, actor, request_id, subjects, data, previous_hash, hash)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
    Instance Upkeep INDEX = "INSERT INTO event_index (org_id, term, sequence) VALUES ($1, $2, $3)
        ON CONFLICT (org_id, term, sequence) DO NOTHING";
    // As many as INDEXED_AT_ONCE.
    Instance Upkeep INDEX_MANY = "INSERT INTO event_index (org_id, term, sequence) VALUES
          ($1, $2, $3), ($1, $4, $5), ($1, $6, $7), ($1, $8, $9),
          ($1, $10, $11), ($1, $12, $13), ($1, $14, $15), ($1, $16, $17),
          ($1, $18, $19), ($1, $20, $21), ($1, $22, $23), ($1, $24, $25),
          ($1, $26, $27), ($1, $28, $29), ($1, $30, $31), ($1, $32, $33)
        ON CONFLICT (org_id, term, sequence) DO NOTHING";
}

/// Events that are not in the index yet; whoever looks for some reads these one by one. One more, and all are indexed.
const TAIL_MAX: usize = 128;

/// The same while many write to a database of our own: the more are indexed together, the fewer pages of the index each of
/// them costs. The next commit of few ends that.
const BUSY_TAIL_MAX: usize = 1_024;

/// So many jobs in one commit are many.
const BUSY_JOBS: usize = 8;

/// Rows of the index in one statement: each is a way to the database and back, and whoever commits next waits for all.
const INDEXED_AT_ONCE: usize = 16;

/// Organizations whose histories a connection remembers; beyond it all are read again.
const DOUBTED_MAX: usize = 256;

/// Where the histories end that a connection writes. What one commit moves is written once, with the commit.
#[derive(Debug, Default)]
pub struct Heads {
    known: HashMap<OrgId, Known>,
    /// Known in earlier transactions, where others write too.
    doubted: HashMap<OrgId, Known>,
    /// Moved since the last commit.
    moved: Vec<OrgId>,
    /// So many share the commit.
    jobs: usize,
    /// What the running job has changed, in case it is undone.
    undo: Vec<(OrgId, Head)>,
}

#[derive(Debug)]
struct Known {
    /// As it stands in the database.
    stored: i64,
    head: Head,
    /// Everything up to here is in the index.
    indexed: i64,
    /// What the events after that are found by.
    tail: Vec<(i64, Vec<String>)>,
}

impl Heads {
    fn of(&self, org: OrgId) -> Option<Head> {
        self.known.get(&org).map(|known| known.head.clone())
    }

    fn learn(&mut self, org: OrgId, head: Head, indexed: i64, tail: Vec<(i64, Vec<String>)>) {
        self.known.insert(org, Known { stored: head.sequence, head, indexed, tail });
    }

    fn move_to(&mut self, org: OrgId, head: Head, terms: Vec<String>) {
        let Some(known) = self.known.get_mut(&org) else { return };
        if known.head.sequence == known.stored {
            self.moved.push(org);
        }
        known.tail.push((head.sequence, terms));
        self.undo.push((org, std::mem::replace(&mut known.head, head)));
    }

    /// A job begins: what came before it stays, whatever becomes of it.
    pub(crate) fn begin_job(&mut self) {
        self.undo.clear();
    }

    /// So many jobs share the commit that begins. For one that writes alone: where others write too, each reads the tail
    /// again, and it has to be short.
    pub(crate) fn begin_commit(&mut self, jobs: usize) {
        self.jobs = jobs;
    }

    pub(crate) fn undo_job(&mut self) {
        for (org, head) in self.undo.drain(..).rev() {
            if let Some(known) = self.known.get_mut(&org) {
                known.tail.retain(|(sequence, _)| *sequence <= head.sequence);
                known.head = head;
            }
        }
        let known = &self.known;
        self.moved.retain(|org| known.get(org).is_some_and(|known| known.head.sequence != known.stored));
    }

    /// Somebody else may have moved them since: each is compared with the database before it is used again.
    pub(crate) fn doubt(&mut self) {
        self.doubted.extend(self.known.drain());
        self.moved.clear();
        if self.doubted.len() > DOUBTED_MAX {
            self.doubted.clear();
        }
    }

    /// Whether what was known before still holds; then it is used again.
    fn recall(&mut self, org: OrgId, head: &Head, indexed: i64) -> bool {
        let before = self.doubted.remove(&org).filter(|it| it.head == *head && it.indexed == indexed);
        before.map(|it| self.known.insert(org, it)).is_some()
    }

    /// Nothing of the transaction was kept: ask the database again.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }
}

/// Writes the heads that moved, as the last act of a transaction.
pub(crate) fn write_heads(conn: &mut dyn Conn) -> Result<(), StoreError> {
    let jobs = std::mem::take(&mut conn.heads().jobs);
    let tail_max = if jobs < BUSY_JOBS { TAIL_MAX } else { BUSY_TAIL_MAX };
    for org in std::mem::take(&mut conn.heads().moved) {
        let Some(known) = conn.heads().known.get_mut(&org) else { continue };
        let Head { sequence, hash } = known.head.clone();
        let stored = std::mem::replace(&mut known.stored, sequence);
        let is_long = known.tail.len() > tail_max;
        let tail = if is_long { std::mem::take(&mut known.tail) } else { Vec::new() };
        known.indexed = if is_long { sequence } else { known.indexed };
        let params = [text(org), sequence.into(), hash.into(), stored.into(), known.indexed.into()];
        if conn.execute(&MOVE_HEAD, &params.each_ref())? != 1 {
            return Err(StoreError::Bug(format!("the history of {org} was moved by somebody else")));
        }
        index(conn, org, tail)?;
    }
    Ok(())
}

/// In the order in which they lie, so that each page of the index is touched once.
fn index(conn: &mut dyn Conn, org: OrgId, tail: Vec<(i64, Vec<String>)>) -> Result<(), StoreError> {
    let found = tail.into_iter().flat_map(|(at, terms)| terms.into_iter().map(move |term| (term, at)));
    let mut rows: Vec<(String, i64)> = found.collect();
    rows.sort_unstable();
    let (many, rest) = rows.as_chunks::<INDEXED_AT_ONCE>();
    for rows in many {
        index_rows(conn, org, &INDEX_MANY, rows)?;
    }
    rest.chunks(1).try_for_each(|row| index_rows(conn, org, &INDEX, row))
}

fn index_rows(
    conn: &mut dyn Conn,
    org: OrgId,
    statement: &Statement,
    rows: &[(String, i64)],
) -> Result<(), StoreError> {
    let mut params = vec![text(org)];
    params.extend(rows.iter().flat_map(|(term, at)| [term.as_str().into(), (*at).into()]));
    conn.execute(statement, &params.iter().collect::<Vec<_>>()).map(drop)
}

/// What an event is found by. The same words are used when it is looked for.
pub(crate) fn term(kind: &str, value: &str) -> String {
    [kind, ":", value].concat()
}

pub(crate) fn terms(kind: &str, actor: &Actor, subjects: &[Subject]) -> Vec<String> {
    let mut terms = vec![term("kind", kind)];
    terms.extend(actor.id.map(|id| term("actor", &id.to_string())));
    terms.extend(subjects.iter().map(|subject| term(&subject.kind, &subject.id)));
    terms
}

/// An event that has no place in the history yet.
pub(crate) fn draft(tx: &Tx<'_>, event: NewEvent) -> Result<Event, StoreError> {
    let NewEvent { kind, by, subjects, data } = event;
    Ok(Event {
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
    })
}

pub(crate) fn append(tx: &mut Tx<'_>, mut event: Event) -> Result<Event, StoreError> {
    let org = event.org;
    let before = match tx.heads().of(org) {
        Some(head) => head,
        None => learn(tx, org)?,
    };
    let head = chain::seal(before, std::slice::from_mut(&mut event))?;
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
    tx.heads().move_to(org, head, terms(&event.kind, &event.actor, &event.subjects));
    Ok(event)
}

/// Where the history stands in the database.
fn learn(tx: &mut Tx<'_>, org: OrgId) -> Result<Head, StoreError> {
    let (head, indexed) = events::stands(tx)?;
    if tx.heads().recall(org, &head, indexed) {
        return Ok(head);
    }
    let tail = events::after(tx, indexed, head.sequence, i64::MAX)?;
    let found = |event: &Event| (event.sequence, terms(&event.kind, &event.actor, &event.subjects));
    tx.heads().learn(org, head.clone(), indexed, tail.iter().map(found).collect());
    Ok(head)
}
