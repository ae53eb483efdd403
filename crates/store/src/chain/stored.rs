//! Checking the stored chain, a page at a time, so that no reader is held for long.

use super::{Head, Verdict, Verifier};
use crate::error::StoreError;
use crate::tables::event::{self, Link};
use crate::tx::Read;

/// Rows read and hashed in one go.
const PAGE_ROWS: i64 = 1_000;

pub struct StoredCheck {
    verifier: Verifier,
    /// `None`: it cannot be read.
    head: Option<Head>,
    after: i64,
    upto: i64,
    /// The last row's number is no number.
    end_is_odd: bool,
}

impl StoredCheck {
    /// Notes where the chain ends now; what is recorded later is not looked at.
    pub fn begin(db: &mut impl Read, kept: Option<Head>) -> Result<Self, StoreError> {
        // From below the first number: a row in front of the chain does not belong there either.
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

    /// True: what would have come next was removed, because it is old.
    fn note_start(&mut self, db: &mut impl Read) -> Result<bool, StoreError> {
        let start = readable(event::kept_after(db))?;
        let start = start.filter(|start| start.sequence > self.verifier.at().sequence);
        Ok(start.map(|start| self.verifier.skip_to(start)).is_some())
    }

    /// Whether there is more to check.
    pub fn page(&mut self, db: &mut impl Read) -> Result<bool, StoreError> {
        if self.note_start(db)? {
            // The event that says so may have come after the end that was noted.
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
            self.verifier.unreadable("a row without a number");
        }
        self.verifier.finish(self.head.as_ref())
    }
}

/// `None`: it is not as this program writes it.
fn readable(head: Result<Head, StoreError>) -> Result<Option<Head>, StoreError> {
    match head {
        Ok(head) => Ok(Some(head)),
        Err(StoreError::Bug(_)) => Ok(None),
        Err(error) => Err(error),
    }
}
