//! Verifies the hash chain in the database page by page, so that each read is short.

use super::{AuditHead, AuditVerdict, ChainVerifier};
use crate::error::StoreError;
use crate::tables::event::{self, ChainLink};
use crate::tx::StoreRead;

/// Number of rows that one read verifies.
const PAGE_ROWS: i64 = 1_000;

pub struct StoredCheck {
    verifier: ChainVerifier,
    /// `None` if the stored head is unreadable.
    head: Option<AuditHead>,
    after: i64,
    upto: i64,
    /// Whether the sequence number of the last row is not an integer.
    end_is_odd: bool,
}

impl StoredCheck {
    /// Prepares to verify the chain up to its current end.
    pub fn begin(db: &mut impl StoreRead, kept: Option<AuditHead>) -> Result<Self, StoreError> {
        // Starts below 1 to include rows that an attacker inserted before the first event.
        let (verifier, after) = (ChainVerifier::new(kept), i64::MIN);
        let mut check = Self { verifier, head: None, after, upto: 0, end_is_odd: false };
        check.load_end(db)?;
        check.load_start(db)?;
        Ok(check)
    }

    fn load_end(&mut self, db: &mut impl StoreRead) -> Result<(), StoreError> {
        self.head = allow_unreadable(event::chain_head(db))?;
        let last = event::last_sequence(db)?;
        self.upto = last.unwrap_or(i64::MAX).max(self.head.as_ref().map_or(0, |head| head.sequence));
        self.end_is_odd = last.is_none();
        Ok(())
    }

    /// Skips events that retention has removed since the last page was verified. Returns whether there were any.
    fn load_start(&mut self, db: &mut impl StoreRead) -> Result<bool, StoreError> {
        let start = allow_unreadable(event::retained_after(db))?;
        let start = start.filter(|start| start.sequence > self.verifier.last_verified().sequence);
        Ok(start.map(|start| self.verifier.skip_to(start)).is_some())
    }

    /// Verifies the next page. Returns whether there are more pages.
    pub fn verify_page(&mut self, db: &mut impl StoreRead) -> Result<bool, StoreError> {
        if self.load_start(db)? {
            // Loads the end again, because the event that announces this removal may be after the end known so far.
            self.load_end(db)?;
        }
        let links = event::list_chain_links(db, self.after, self.upto, PAGE_ROWS)?;
        for link in &links {
            match link {
                ChainLink::Sealed(sealed) => self.verifier.verify_event(sealed),
                ChainLink::Unreadable { sequence, why } => {
                    self.verifier.report_unreadable(&format!("row {sequence}, {why}"));
                }
            }
        }
        let Some(last) = links.last() else { return Ok(false) };
        self.after = last.sequence();
        Ok(self.verifier.problem().is_none() && self.after < self.upto)
    }

    pub fn finish(mut self) -> AuditVerdict {
        if self.end_is_odd {
            self.verifier.report_unreadable("a row without a sequence number");
        }
        self.verifier.finish(self.head.as_ref())
    }
}

/// Returns `None` for a head that cannot be read, which Berth cannot have written.
fn allow_unreadable(head: Result<AuditHead, StoreError>) -> Result<Option<AuditHead>, StoreError> {
    match head {
        Ok(head) => Ok(Some(head)),
        Err(StoreError::Bug(_)) => Ok(None),
        Err(error) => Err(error),
    }
}
