//! Pages of lists.

use crate::error::StoreError;
use crate::sql::value::Value;
use crate::sql::{FromRow, Statement};
use crate::tx::Read;

/// Filtered lists are counted up to this total.
pub const COUNTED_MAX: i64 = 10_000;

/// One page of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Slice<T> {
    pub items: Vec<T>,
    /// The length of the whole list. `None` if it was not counted or exceeds [`COUNTED_MAX`].
    pub total: Option<i64>,
    pub has_more: bool,
}

/// Bounds for a selection of due work: rows in all, and rows of one organization. Every organization's first row comes
/// before any organization's second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch {
    pub total: i64,
    pub share: i64,
}

/// Where a page starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum From {
    Offset(i64),
    /// After the record with this id or number, in the order of the list.
    After(String),
}

impl From {
    /// The id after which the page starts, and the rows to skip. Every id is greater than an empty text.
    pub(crate) fn by_id(&self) -> [Value; 2] {
        match self {
            From::After(id) => [id.as_str().into(), 0.into()],
            From::Offset(offset) => ["".into(), (*offset).into()],
        }
    }

    /// The number before which the page starts, for lists in descending order, and the rows to skip.
    pub(crate) fn by_number(&self) -> [Value; 2] {
        match self {
            From::After(number) => [number.parse().unwrap_or(0).into(), 0.into()],
            From::Offset(offset) => [i64::MAX.into(), (*offset).into()],
        }
    }
}

impl<T> Slice<T> {
    /// `items` has one row more than the limit if there is another page.
    pub(crate) fn cut(mut items: Vec<T>, limit: i64, total: Option<i64>) -> Self {
        let limit = usize::try_from(limit).unwrap_or(0);
        let has_more = items.len() > limit;
        items.truncate(limit);
        Self { items, total, has_more }
    }

    pub(crate) fn with_total(self, total: Option<i64>) -> Self {
        Self { total, ..self }
    }
}

/// Fetches a page. The last parameters of the statement are the start of the page, its limit and its offset; those of the
/// filter come before.
pub(crate) fn fetch_page<T: FromRow>(
    db: &mut impl Read,
    list: &Statement,
    filter: &[Value],
    [start, offset]: [Value; 2],
    limit: i64,
) -> Result<Slice<T>, StoreError> {
    let params = [filter, &[start, (limit + 1).into(), offset]].concat();
    Ok(Slice::cut(db.fetch_all(list, &params)?, limit, None))
}

/// Counts up to [`COUNTED_MAX`]. The last parameter of the statement is the limit.
pub(crate) fn fetch_bounded_count(
    db: &mut impl Read,
    count: &Statement,
    filter: &[Value],
) -> Result<Option<i64>, StoreError> {
    let params = [filter, &[(COUNTED_MAX + 1).into()]].concat();
    db.fetch_count(count, &params).map(counted)
}

pub(crate) fn counted(count: i64) -> Option<i64> {
    (count <= COUNTED_MAX).then_some(count)
}
