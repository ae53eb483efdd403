//! Results of use cases: a record with a status code, or a page of a list.

use berth_api::ReplayableBody;
use berth_api::problem::Code;
use berth_store::idempotency::StoredResponse;
use berth_store::pagination::{ListPage, PageStart};

use crate::error::AppError;

/// A response: its body, and the data for its status and headers.
#[derive(Debug)]
pub struct ApiResponse<T> {
    pub status: u16,
    pub location: Option<String>,
    /// The version of the record, for the `ETag`.
    pub version: Option<i64>,
    /// Identifies the parts of the response that can change while the version of the record stays the same. Part of the
    /// `ETag`.
    pub variant: Option<String>,
    pub body: T,
    /// `body` as serialized for storage under the idempotency key. Code that changes `body` must set this to `None`.
    pub stored_body: Option<String>,
}

impl<T> ApiResponse<T> {
    pub fn ok(body: T) -> Self {
        Self { status: 200, location: None, version: None, variant: None, body, stored_body: None }
    }

    pub fn created(location: String, body: T) -> Self {
        Self { status: 201, location: Some(location), ..Self::ok(body) }
    }

    /// A 202 response: the work continues in the background.
    pub fn accepted(location: String, body: T) -> Self {
        Self { status: 202, ..Self::created(location, body) }
    }

    #[must_use]
    pub fn with_version(self, version: i64) -> Self {
        Self { version: Some(version), ..self }
    }

    /// Adds `variant` to the `ETag`, after the version.
    #[must_use]
    pub fn with_variant(self, variant: impl std::fmt::Display) -> Self {
        Self { variant: Some(variant.to_string()), ..self }
    }

    pub fn etag(&self) -> Option<String> {
        let variant = self.variant.iter().map(|variant| format!(".{variant}")).collect::<String>();
        self.version.map(|version| format!("\"{version}{variant}\""))
    }

    pub fn headers(&self) -> Vec<(String, String)> {
        let location = self.location.iter().map(|place| ("location".to_owned(), place.clone()));
        location.chain(self.etag().map(|tag| ("etag".to_owned(), tag))).collect()
    }
}

impl<T: ReplayableBody> ApiResponse<T> {
    pub(super) fn to_stored_response(&self) -> Result<StoredResponse, AppError> {
        let body =
            self.body.to_replay_json().map_err(|error| AppError::bug(format!("cannot store: {error}")))?;
        Ok(StoredResponse { status: self.status, headers: self.headers(), body })
    }
}

/// The response to a request that may be a retry with the same idempotency key: computed now, or the stored response.
#[derive(Debug)]
pub enum IdempotentResponse<T> {
    Fresh(ApiResponse<T>),
    Replayed(StoredResponse),
}

/// A page of a list, with the key to continue from.
#[derive(Debug)]
pub struct ResponsePage<T> {
    pub items: Vec<T>,
    pub total: Option<i64>,
    pub has_more: bool,
    /// The key of the last item; the next page starts after it.
    pub last: Option<String>,
}

pub(super) fn key_reused_error() -> AppError {
    AppError::new(Code::IdempotencyKeyReused, "this Idempotency-Key was already used with a different body")
}

impl<T> ResponsePage<T> {
    pub fn from_list_page<R>(
        slice: &ListPage<R>,
        key: impl Fn(&R) -> String,
        show: impl Fn(&R) -> T,
    ) -> Self {
        Self {
            items: slice.items.iter().map(show).collect(),
            total: slice.total,
            has_more: slice.has_more,
            last: slice.items.last().map(key),
        }
    }

    /// Cuts a page out of a complete list. `all` must be sorted by key.
    pub fn from_all(all: Vec<T>, from: &PageStart, limit: i64, key: impl Fn(&T) -> String) -> Self {
        let total = i64::try_from(all.len()).ok();
        let skip = match from {
            PageStart::Offset(offset) => usize::try_from(*offset).unwrap_or(usize::MAX),
            PageStart::After(last) => all.iter().take_while(|item| key(item) <= *last).count(),
        };
        let mut items: Vec<T> = all.into_iter().skip(skip).collect();
        let limit = usize::try_from(limit).unwrap_or(0);
        let has_more = items.len() > limit;
        items.truncate(limit);
        Self { last: items.last().map(key), items, total, has_more }
    }
}
