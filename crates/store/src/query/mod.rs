//! Read models: lists and pages.

pub mod analyses;
pub mod approvals;
pub mod attempts;
pub mod deployed;
pub mod deployments;
pub mod environments;
pub mod events;
pub mod everywhere;
pub mod findable;
pub mod insights;
pub mod invitations;
pub mod measured;
pub mod members;
pub mod pipelines;
pub mod registries;
pub mod repositories;
pub mod runners;
pub mod runs;
pub mod secrets;
pub mod tokens;
pub mod webhooks;

use crate::error::StoreError;
use crate::sql::Statement;
use crate::tx::Read;
use crate::value::Row;

/// A slice of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Slice<T> {
    pub items: Vec<T>,
    /// How many there are in all, where that is counted.
    pub total: Option<i64>,
    pub has_more: bool,
}

/// How many rows a selection of due work has at most, in all and of one organization. The first of every organization
/// come before the second of any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch {
    pub total: i64,
    pub share: i64,
}

/// Where a slice begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum From {
    Offset(i64),
    /// After this record, in the list's order.
    After(String),
}

/// With filters, totals are counted up to here.
pub const COUNTED_MAX: i64 = 10_000;

impl<T> Slice<T> {
    /// From one row more than was asked for, which tells whether there are more.
    fn cut(mut items: Vec<T>, limit: i64, total: Option<i64>) -> Self {
        let limit = usize::try_from(limit).unwrap_or(0);
        let has_more = items.len() > limit;
        items.truncate(limit);
        Self { items, total, has_more }
    }
}

/// A slice of a whole list: `list` takes the id it follows, a limit and an offset.
fn page<T>(
    db: &mut impl Read,
    list: &Statement,
    total: &Statement,
    from: &From,
    limit: i64,
    read: impl Fn(&Row) -> Result<T, StoreError>,
) -> Result<Slice<T>, StoreError> {
    let (after, offset) = match from {
        From::After(id) => (id.as_str(), 0),
        From::Offset(offset) => ("", *offset),
    };
    let rows = db.rows(list, &[after.into(), (limit + 1).into(), offset.into()])?;
    let total = Some(count(db, total)?);
    Ok(Slice::cut(rows.iter().map(read).collect::<Result<_, _>>()?, limit, total))
}

fn count(db: &mut impl Read, statement: &Statement) -> Result<i64, StoreError> {
    db.row(statement, &[])?.map_or(Ok(0), |row| row.int(0))
}

fn counted(count: i64) -> Option<i64> {
    (count <= COUNTED_MAX).then_some(count)
}
