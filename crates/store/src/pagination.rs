//! Pagination of lists.

use crate::error::StoreError;
use crate::sql::value::SqlValue;
use crate::sql::{FromRow, SqlStatement};
use crate::tx::StoreRead;

/// The rows of a filtered list are counted only up to this number.
pub const COUNTED_MAX: i64 = 10_000;

/// One page of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct ListPage<T> {
    pub items: Vec<T>,
    /// The number of rows on all pages. `None` if it was not counted or is above [`COUNTED_MAX`].
    pub total: Option<i64>,
    pub has_more: bool,
}

/// Limits for selecting due work fairly: the total number of rows, and the number of rows per organization. The first
/// row of every organization is selected before a second row of any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FairBatch {
    pub total: i64,
    pub share: i64,
}

/// Where a page starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PageStart {
    Offset(i64),
    /// After the record with this id or number, in the sort order of the list.
    After(String),
}

impl PageStart {
    /// The id after which the page starts (empty for the first page), and the number of rows to skip.
    pub(crate) fn by_id(&self) -> [SqlValue; 2] {
        match self {
            PageStart::After(id) => [id.as_str().into(), 0.into()],
            PageStart::Offset(offset) => ["".into(), (*offset).into()],
        }
    }

    /// The number before which the page starts, and the number of rows to skip. For lists in descending order.
    pub(crate) fn by_number(&self) -> [SqlValue; 2] {
        self.by_number_before(i64::MAX)
    }

    /// Like [`PageStart::by_number`], for a list without rows at or above this number.
    pub(crate) fn by_number_before(&self, end: i64) -> [SqlValue; 2] {
        match self {
            PageStart::After(number) => [number.parse().unwrap_or(0).min(end).into(), 0.into()],
            PageStart::Offset(offset) => [end.into(), (*offset).into()],
        }
    }
}

impl<T> ListPage<T> {
    /// Creates a page from the fetched rows. The caller fetches one row more than `limit`; if that row exists, there is
    /// another page.
    pub(crate) fn from_rows(mut items: Vec<T>, limit: i64, total: Option<i64>) -> Self {
        let limit = usize::try_from(limit).unwrap_or(0);
        let has_more = items.len() > limit;
        items.truncate(limit);
        Self { items, total, has_more }
    }

    pub(crate) fn with_total(self, total: Option<i64>) -> Self {
        Self { total, ..self }
    }
}

/// Fetches a page. The parameters of the statement are those of the filter, then the start of the page, its limit and
/// its offset.
pub(crate) fn fetch_page<T: FromRow>(
    db: &mut impl StoreRead,
    list: &SqlStatement,
    filter: &[SqlValue],
    [start, offset]: [SqlValue; 2],
    limit: i64,
) -> Result<ListPage<T>, StoreError> {
    let params = [filter, &[start, (limit + 1).into(), offset]].concat();
    Ok(ListPage::from_rows(db.fetch_all(list, &params)?, limit, None))
}

/// Counts rows. Returns `None` if there are more than [`COUNTED_MAX`]. The last parameter of the statement is the
/// number of rows after which it stops counting.
pub(crate) fn fetch_bounded_count(
    db: &mut impl StoreRead,
    count: &SqlStatement,
    filter: &[SqlValue],
) -> Result<Option<i64>, StoreError> {
    let params = [filter, &[(COUNTED_MAX + 1).into()]].concat();
    db.fetch_count(count, &params).map(known_total)
}

pub(crate) fn known_total(count: i64) -> Option<i64> {
    (count <= COUNTED_MAX).then_some(count)
}
