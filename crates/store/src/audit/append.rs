//! Appends events to the audit log: numbered without gaps per organization, in commit order, and hash-chained.
//!
//! Events are numbered in the transaction that records them. It locks the organization until the commit, so the order
//! of numbers is the order of commits.

use std::collections::HashMap;

use berth_core::event::{Event, NewEvent};
use berth_core::id::{EventId, OrgId};

use crate::audit::terms;
use crate::audit::{self, AuditHead};
use crate::error::StoreError;
use crate::sql::value::text;
use crate::sql::{SqlConn, statements};
use crate::tables::event as events;
use crate::tx::Tx;

statements! {
    // Compare-and-swap: a head that another writer has moved is not overwritten.
    Instance Upkeep MOVE_HEAD = "INSERT INTO event_heads (org_id, sequence, hash) VALUES ($1, $2, $3)
        ON CONFLICT (org_id) DO UPDATE SET sequence = excluded.sequence, hash = excluded.hash
        WHERE event_heads.sequence = $4";
}

/// Heads of the audit logs that a connection writes. A head that has moved is written once, before the commit.
#[derive(Debug, Default)]
pub(crate) struct AuditHeads {
    known: HashMap<OrgId, KnownHead>,
    /// Heads that have moved since the last commit.
    moved: Vec<OrgId>,
    /// Previous heads, to undo the running job.
    undo: Vec<(OrgId, AuditHead)>,
}

#[derive(Debug)]
struct KnownHead {
    /// The sequence number in the database.
    stored: i64,
    head: AuditHead,
}

impl AuditHeads {
    fn find_head(&self, org: OrgId) -> Option<AuditHead> {
        self.known.get(&org).map(|known| known.head.clone())
    }

    fn insert_stored(&mut self, org: OrgId, head: AuditHead) {
        self.known.insert(org, KnownHead { stored: head.sequence, head });
    }

    fn move_to(&mut self, org: OrgId, head: AuditHead) {
        let Some(known) = self.known.get_mut(&org) else { return };
        if known.head.sequence == known.stored {
            self.moved.push(org);
        }
        self.undo.push((org, std::mem::replace(&mut known.head, head)));
    }

    /// Starts a job, which can be undone without the jobs before it.
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

    /// Drops all heads: the transaction was rolled back, or another server may have moved them.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Writes the heads that have moved, as the last statements of a transaction.
pub(crate) fn write_heads(conn: &mut dyn SqlConn, heads: &mut AuditHeads) -> Result<(), StoreError> {
    for org in std::mem::take(&mut heads.moved) {
        let Some(known) = heads.known.get_mut(&org) else { continue };
        let AuditHead { sequence, hash } = known.head.clone();
        let stored = std::mem::replace(&mut known.stored, sequence);
        let params = [text(org), sequence.into(), hash.into(), stored.into()];
        if conn.execute(&MOVE_HEAD, &params.each_ref())? != 1 {
            return Err(StoreError::Bug(format!("another writer has moved the head of {org}")));
        }
    }
    Ok(())
}

/// Creates an event without a number and hashes.
pub(crate) fn draft_event(tx: &Tx<'_>, event: NewEvent) -> Result<Event, StoreError> {
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

/// Numbers, hashes and inserts an event.
pub(crate) fn append_event(tx: &mut Tx<'_>, mut event: Event) -> Result<Event, StoreError> {
    let org = event.org;
    let before = match tx.heads().find_head(org) {
        Some(head) => head,
        None => {
            let head = events::chain_head(tx)?;
            tx.heads().insert_stored(org, head.clone());
            head
        }
    };
    event.id = event.id.with_number(before.sequence + 1);
    let head = audit::seal_events(before, std::slice::from_mut(&mut event))?;
    events::insert(tx, &event)?;
    terms::put(tx, &event)?;
    tx.heads().move_to(org, head);
    Ok(event)
}
