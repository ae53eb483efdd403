//! Verification of the stored chain, page by page, so that no read takes long.

use super::{Head, Verdict, Verifier};
use crate::error::StoreError;
use crate::tables::event::{self, Link};
use crate::tx::Read;

/// Rows verified by one read.
const PAGE_ROWS: i64 = 1_000;

pub struct StoredCheck {
    verifier: Verifier,
    /// `None` if the stored head is unreadable.
    head: Option<Head>,
    after: i64,
    upto: i64,
    /// The sequence number of the last row is not a number.
    end_is_odd: bool,
}

impl StoredCheck {
    /// Starts a verification up to the current end of the chain.
    pub fn begin(db: &mut impl Read, kept: Option<Head>) -> Result<Self, StoreError> {
        // Starts below 1 to find rows that were inserted before the first event.
        let (verifier, after) = (Verifier::new(kept), i64::MIN);
        let mut check = Self { verifier, head: None, after, upto: 0, end_is_odd: false };
        check.note_end(db)?;
        check.note_start(db)?;
        Ok(check)
    }

    fn note_end(&mut self, db: &mut impl Read) -> Result<(), StoreError> {
        self.head = readable(event::head(db))?;
        let last = event::last(db)?;
        self.upto = last.unwrap_or(i64::MAX).max(self.head.as_ref().map_or(0, |head| head.sequence));
        self.end_is_odd = last.is_none();
        Ok(())
    }

    /// Returns true if retention has removed the events that would have come next.
    fn note_start(&mut self, db: &mut impl Read) -> Result<bool, StoreError> {
        let start = readable(event::kept_after(db))?;
        let start = start.filter(|start| start.sequence > self.verifier.at().sequence);
        Ok(start.map(|start| self.verifier.skip_to(start)).is_some())
    }

    /// Verifies a page. Returns whether there are more.
    pub fn page(&mut self, db: &mut impl Read) -> Result<bool, StoreError> {
        if self.note_start(db)? {
            // The event that announces the removal may be after the end noted at the start.
            self.note_end(db)?;
        }
        let links = event::links(db, self.after, self.upto, PAGE_ROWS)?;
        for link in &links {
            match link {
                Link::Sealed(sealed) => self.verifier.event(sealed),
                Link::Unreadable { sequence, why } => {
                    self.verifier.unreadable(&format!("row {sequence}, {why}"));
                }
            }
        }
        let Some(last) = links.last() else { return Ok(false) };
        self.after = last.sequence();
        Ok(self.verifier.problem().is_none() && self.after < self.upto)
    }

    pub fn finish(mut self) -> Verdict {
        if self.end_is_odd {
            self.verifier.unreadable("a row without a sequence number");
        }
        self.verifier.finish(self.head.as_ref())
    }
}

/// `None` if the head was not written by this program.
fn readable(head: Result<Head, StoreError>) -> Result<Option<Head>, StoreError> {
    match head {
        Ok(head) => Ok(Some(head)),
        Err(StoreError::Bug(_)) => Ok(None),
        Err(error) => Err(error),
    }
}
