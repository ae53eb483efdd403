//! Checking the stored chain, a page at a time, so that no reader is held for long.

use super::{Head, Verdict, Verifier};
use crate::error::StoreError;
use crate::query::events::{self, Link};
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
        let head = match events::head(db) {
            Ok(head) => Some(head),
            Err(StoreError::Bug(_)) => None,
            Err(error) => return Err(error),
        };
        let last = events::last(db)?;
        let upto = last.unwrap_or(i64::MAX).max(head.as_ref().map_or(0, |head| head.sequence));
        // From below the first number: a row in front of the chain does not belong there either.
        let (verifier, after) = (Verifier::new(kept), i64::MIN);
        Ok(Self { verifier, head, after, upto, end_is_odd: last.is_none() })
    }

    /// Whether there is more to check.
    pub fn page(&mut self, db: &mut impl Read) -> Result<bool, StoreError> {
        let links = events::links(db, self.after, self.upto, PAGE_ROWS)?;
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
