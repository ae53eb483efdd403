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
use crate::lists;
use crate::sql::Statement;
use crate::tx::Read;
use crate::value::Row;

/// A slice of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Slice<T> {
    pub items: Vec<T>,
    /// How many there are in all, where that is known without walking them.
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

/// A slice of a whole list that keeps its totals and blocks: `from_id` begins at an id and skips, `after_id` follows one.
fn kept<T>(
    db: &mut impl Read,
    list: &str,
    [from_id, after_id]: [&Statement; 2],
    from: &From,
    limit: i64,
    read: impl Fn(&Row) -> Result<T, StoreError>,
) -> Result<Slice<T>, StoreError> {
    let total = Some(lists::total(db, list)?);
    let rows = match from {
        From::After(id) => db.rows(after_id, &[id.as_str().into(), (limit + 1).into()])?,
        From::Offset(offset) => match lists::anchor(db, list, *offset)? {
            None => Vec::new(),
            Some(anchor) => {
                db.rows(from_id, &[anchor.first_id.into(), (limit + 1).into(), anchor.skip.into()])?
            }
        },
    };
    Ok(Slice::cut(rows.iter().map(read).collect::<Result<_, _>>()?, limit, total))
}

fn counted(count: i64) -> Option<i64> {
    (count <= COUNTED_MAX).then_some(count)
}
