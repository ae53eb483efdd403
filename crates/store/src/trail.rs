//! The audit trail: events in the order they were committed, numbered without gaps per organization and chained.
//!
//! They are sealed in the transaction that records them: whoever writes has the organization to itself until the commit, so
//! the order of numbers is the order of commits.

use std::collections::HashMap;

use berth_core::event::{Actor, Event, NewEvent, Subject};
use berth_core::id::{EventId, OrgId};

use crate::chain::{self, Head};
use crate::error::StoreError;
use crate::event_lists::{self, Unlisted};
use crate::query::events;
use crate::sql::{Conn, statements};
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
}

/// Events that are in no list yet; whoever looks for some reads these one by one. One more, and all are listed.
const TAIL_MAX: usize = 128;

/// The same while many write to a database of our own: the more are listed together, the longer the lists, and the fewer
/// rows each of them costs. The next commit of few ends that.
const BUSY_TAIL_MAX: usize = 1_024;

/// So many jobs in one commit are many.
const BUSY_JOBS: usize = 8;

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
    /// Everything up to here is in lists.
    indexed: i64,
    /// The events after that.
    tail: Vec<Unlisted>,
}

impl Heads {
    fn of(&self, org: OrgId) -> Option<Head> {
        self.known.get(&org).map(|known| known.head.clone())
    }

    fn learn(&mut self, org: OrgId, head: Head, indexed: i64, tail: Vec<Unlisted>) {
        self.known.insert(org, Known { stored: head.sequence, head, indexed, tail });
    }

    fn move_to(&mut self, org: OrgId, head: Head, event: Unlisted) {
        let Some(known) = self.known.get_mut(&org) else { return };
        if known.head.sequence == known.stored {
            self.moved.push(org);
        }
        known.tail.push(event);
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
                known.tail.retain(|event| event.sequence <= head.sequence);
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
        event_lists::write(conn, org, &tail)?;
    }
    Ok(())
}

/// Whoever looks for events looks for one of these.
const SUBJECTS: [&str; 3] = ["deployment", "environment", "pipeline"];

/// What an event is found by. The same words are used when it is looked for.
pub(crate) fn term(kind: &str, value: &str) -> String {
    [kind, ":", value].concat()
}

pub(crate) fn terms(kind: &str, actor: &Actor, subjects: &[Subject]) -> Vec<String> {
    let mut terms = vec![term("kind", kind)];
    terms.extend(actor.id.map(|id| term("actor", &id.to_string())));
    let asked_for = subjects.iter().filter(|subject| SUBJECTS.contains(&subject.kind.as_str()));
    terms.extend(asked_for.map(|subject| term(&subject.kind, &subject.id)));
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
    event.id = event.id.numbered(before.sequence + 1);
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
    tx.heads().move_to(org, head, unlisted(&event));
    Ok(event)
}

fn unlisted(event: &Event) -> Unlisted {
    let terms = terms(&event.kind, &event.actor, &event.subjects);
    Unlisted { sequence: event.sequence, at: event.occurred_at, terms }
}

/// Where the history stands in the database.
fn learn(tx: &mut Tx<'_>, org: OrgId) -> Result<Head, StoreError> {
    let (head, indexed) = events::stands(tx)?;
    if tx.heads().recall(org, &head, indexed) {
        return Ok(head);
    }
    let tail = events::after(tx, indexed, head.sequence, i64::MAX)?;
    tx.heads().learn(org, head.clone(), indexed, tail.iter().map(unlisted).collect());
    Ok(head)
}
