//! Lists and their pagination.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Records on one page when the caller does not say.
pub const PAGE_SIZE_DEFAULT: i64 = 50;
/// The largest `limit`.
pub const PAGE_SIZE_MAX: i64 = 1_000;

#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct List<T> {
    pub data: Vec<T>,
    pub pagination: Pagination,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Pagination {
    /// The limit in force: what was asked for, at most 1,000.
    #[schema(example = 50)]
    pub limit: i64,
    #[schema(example = 0)]
    pub offset: i64,
    /// How many records there are; null where counting them would mean walking them.
    pub total: Option<i64>,
    pub has_more: bool,
    /// Pass it as `cursor` to read on. It costs the same at any depth.
    pub next_cursor: Option<String>,
}
