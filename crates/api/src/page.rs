//! Paginated lists.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Default `limit`.
pub const PAGE_SIZE_DEFAULT: i64 = 50;
/// Maximum `limit`.
pub const PAGE_SIZE_MAX: i64 = 1_000;

#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct List<T> {
    pub data: Vec<T>,
    pub pagination: PageInfo,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Pagination)]
pub struct PageInfo {
    /// Page size used: the requested `limit`, at most 1,000.
    #[schema(example = 50)]
    pub limit: i64,
    #[schema(example = 0)]
    pub offset: i64,
    /// Total number of records; null where counting would require a full scan.
    pub total: Option<i64>,
    pub has_more: bool,
    /// Pass it as `cursor` to get the next page. Unlike `offset`, it is equally fast on every page.
    pub next_cursor: Option<String>,
}
