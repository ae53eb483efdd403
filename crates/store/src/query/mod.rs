//! Read models: lists and pages.

pub mod events;
pub mod members;
pub mod pipelines;
pub mod secrets;
pub mod tokens;

/// A slice of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Slice<T> {
    pub items: Vec<T>,
    /// How many there are in all, where that is known without walking them.
    pub total: Option<i64>,
    pub has_more: bool,
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

fn counted(count: i64) -> Option<i64> {
    (count <= COUNTED_MAX).then_some(count)
}
