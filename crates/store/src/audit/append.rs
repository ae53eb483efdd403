//! Appends events to the audit log. The events of an organization are numbered without gaps, in commit order, and
//! hash-chained.
//!
//! An event gets its number in the transaction that records it. That transaction locks the organization until it
//! commits, so the numbers follow the order of the commits.

use std::collections::HashMap;

use berth_core::event::{Event, NewEvent};
use berth_core::id::{EventId, OrgId};

use crate::audit::terms;
use crate::audit::{self, AuditHead};
use crate::error::StoreError;
use crate::sql::value::text;
use crate::sql::{QueuedWrite, SqlConn, statements};
use crate::tables::event as events;
use crate::tx::Tx;

statements! {
    // Compare-and-swap: fails instead of overwriting a head that another writer has advanced.
    Instance Upkeep MOVE_HEAD = "INSERT INTO event_heads (org_id, sequence, hash) VALUES ($1, $2, $3)
        ON CONFLICT (org_id) DO UPDATE SET sequence = excluded.sequence, hash = excluded.hash
        WHERE event_heads.sequence = $4";
}

/// The heads of the audit logs (number and hash of the last event), as known to one write connection. A head that has
/// advanced is written once per transaction, just before the commit.
#[derive(Debug, Default)]
pub(crate) struct AuditHeads {
    known: HashMap<OrgId, KnownHead>,
    /// Organizations whose heads have advanced since the last commit.
    moved: Vec<OrgId>,
    /// The heads before the running job changed them. They are restored if the job is undone.
    undo: Vec<(OrgId, AuditHead)>,
}

#[derive(Debug)]
struct KnownHead {
    /// The sequence number of the head as stored in the database.
    stored: i64,
    head: AuditHead,
}

impl AuditHeads {
    fn find_head(&self, org: OrgId) -> Option<AuditHead> {
        self.known.get(&org).map(|known| known.head.clone())
    }

    pub(crate) fn insert_stored(&mut self, org: OrgId, head: AuditHead) {
        self.known.insert(org, KnownHead { stored: head.sequence, head });
    }

    fn move_to(&mut self, org: OrgId, head: AuditHead) {
        let Some(known) = self.known.get_mut(&org) else { return };
        if known.head.sequence == known.stored {
            self.moved.push(org);
        }
        self.undo.push((org, std::mem::replace(&mut known.head, head)));
    }

    /// Starts a job, which can be undone without undoing the earlier jobs of the transaction.
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

    /// Forgets all heads, because the transaction was rolled back or another server may have advanced them.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Writes the heads that have advanced. Called at the end of a transaction.
pub(crate) fn write_heads(conn: &mut dyn SqlConn, heads: &mut AuditHeads) -> Result<(), StoreError> {
    for org in std::mem::take(&mut heads.moved) {
        let Some(known) = heads.known.get_mut(&org) else { continue };
        let AuditHead { sequence, hash } = known.head.clone();
        let stored = std::mem::replace(&mut known.stored, sequence);
        let params = vec![text(org), sequence.into(), hash.into(), stored.into()];
        // No row means that another writer has moved the head.
        conn.queue(QueuedWrite::new(&MOVE_HEAD, params, 1))?;
    }
    Ok(())
}

/// Creates an event that has no sequence number and no hashes yet.
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

/// Inserts an event after assigning its number and hashes.
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
