//! Query parameters, pagination and `If-Match`. A parameter may occur only once. Error messages state the allowed
//! range.

use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::extract::{FromRequestParts, Query};
use axum::response::IntoResponse;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use berth_api::environment::{Numbered, PageNumbers};
use berth_api::page::{List, PAGE_SIZE_DEFAULT, PAGE_SIZE_MAX, PageInfo};
use berth_store::pagination::PageStart;
use http::header::{self, HeaderMap};
use http::request::Parts;

use crate::app::{NumberedPage, ResponsePage};
use crate::error::AppError;
use crate::limits::{OFFSET_MAX, SEARCH_CHARS_MAX, WAIT_S_MAX};

/// The query parameters of a request. Unknown parameters are ignored.
pub(super) struct QueryParams {
    pairs: Vec<QueryParam>,
    /// The value from `Prefer: wait=N`, an alternative to the `wait` parameter.
    preferred_wait: Option<i64>,
}

struct QueryParam {
    name: String,
    value: String,
    /// Whether the handler has read the parameter. Parameters that it did not read are left out of pagination links.
    is_read: AtomicBool,
}

impl<S: Send + Sync> FromRequestParts<S> for QueryParams {
    type Rejection = AppError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, AppError> {
        let preferred_wait = preferred_wait(&parts.headers);
        if parts.uri.query().is_none() {
            return Ok(Self { pairs: Vec::new(), preferred_wait });
        }
        let pairs = Query::from_request_parts(parts, state).await;
        let Query(pairs) = pairs.map_err(|_| AppError::invalid_parameter("query", "cannot be decoded"))?;
        let pairs: Vec<(String, String)> = pairs;
        let param = |(name, value)| QueryParam { name, value, is_read: AtomicBool::new(false) };
        Ok(Self { pairs: pairs.into_iter().map(param).collect(), preferred_wait })
    }
}

impl QueryParams {
    /// Returns the value of a parameter. An empty value counts as absent.
    pub(super) fn get(&self, name: &str) -> Result<Option<&str>, AppError> {
        let found = self.pairs.iter().filter(|param| param.name == name);
        let mut found =
            found.inspect(|param| param.is_read.store(true, Ordering::Relaxed)).map(|param| &*param.value);
        match (found.next(), found.next()) {
            (first, None) => Ok(first.filter(|value| !value.is_empty())),
            (_, Some(_)) => Err(AppError::invalid_parameter(name, "is given more than once")),
        }
    }

    /// Returns a string of limited length without control characters.
    pub(super) fn text(&self, name: &str) -> Result<Option<String>, AppError> {
        let Some(text) = self.get(name)? else { return Ok(None) };
        if text.chars().count() > SEARCH_CHARS_MAX || text.chars().any(char::is_control) {
            let range = format!("must be at most {SEARCH_CHARS_MAX} characters without control characters");
            return Err(AppError::invalid_parameter(name, range));
        }
        Ok(Some(text.to_owned()))
    }

    /// Returns an id. `of` is the kind of record, for the error message.
    pub(super) fn id<T: FromStr>(&self, name: &str, of: &str) -> Result<Option<T>, AppError> {
        let Some(text) = self.get(name)? else { return Ok(None) };
        let wanted = || AppError::invalid_parameter(name, format!("must be the id of {of}"));
        text.parse().map(Some).map_err(|_| wanted())
    }

    /// Returns a value parsed with `parse`.
    pub(super) fn name<T, E: std::fmt::Display>(
        &self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<Option<T>, AppError> {
        let Some(text) = self.get(name)? else { return Ok(None) };
        parse(text).map(Some).map_err(|error| AppError::invalid_parameter(name, error.to_string()))
    }

    pub(super) fn parse<T: FromStr<Err: std::fmt::Display>>(
        &self,
        name: &str,
    ) -> Result<Option<T>, AppError> {
        let Some(text) = self.get(name)? else { return Ok(None) };
        text.parse().map(Some).map_err(|error: T::Err| AppError::invalid_parameter(name, error.to_string()))
    }

    /// Returns how long the response may wait for a change, from `wait` or `Prefer: wait=N`.
    pub(super) fn wait(&self) -> Result<Duration, AppError> {
        let seconds = self.integer("wait", 0, WAIT_S_MAX)?.or(self.preferred_wait).unwrap_or(0);
        Ok(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
    }

    pub(super) fn one_of(&self, name: &str, words: &[&str]) -> Result<Option<String>, AppError> {
        let Some(text) = self.get(name)? else { return Ok(None) };
        if words.contains(&text) {
            return Ok(Some(text.to_owned()));
        }
        Err(AppError::invalid_parameter(name, format!("must be one of {}", words.join(", "))))
    }

    pub(super) fn integer(&self, name: &str, least: i64, most: i64) -> Result<Option<i64>, AppError> {
        let Some(text) = self.get(name)? else { return Ok(None) };
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        let value = text.parse().ok().filter(|value| digits && (least..=most).contains(value));
        let range = format!("must be a whole number from {least} to {most}");
        value.map(Some).ok_or_else(|| AppError::invalid_parameter(name, range))
    }
}

/// Reads `Prefer: wait=N`. A preference never causes an error (RFC 7240): an invalid value is ignored, and one that is
/// too high is reduced to the maximum.
fn preferred_wait(headers: &HeaderMap) -> Option<i64> {
    let preferences = headers.get_all("prefer").iter().filter_map(|value| value.to_str().ok());
    let mut preferences =
        preferences.flat_map(|value| value.split(',')).filter_map(|it| it.trim().split_once('='));
    let (_, seconds) = preferences.find(|(name, _)| name.trim().eq_ignore_ascii_case("wait"))?;
    let seconds: u32 = seconds.trim().trim_matches('"').parse().ok()?;
    Some(i64::from(seconds).min(WAIT_S_MAX))
}

/// Pagination by `page` and `limit`.
pub(super) struct PageNumber {
    pub(super) page: i64,
    pub(super) limit: i64,
    path: String,
}

impl<S: Send + Sync> FromRequestParts<S> for PageNumber {
    type Rejection = AppError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, AppError> {
        let params = QueryParams::from_request_parts(parts, state).await?;
        let limit = params.integer("limit", 1, PAGE_SIZE_MAX)?.unwrap_or(PAGE_SIZE_DEFAULT);
        let page = params.integer("page", 1, OFFSET_MAX)?.unwrap_or(1);
        Ok(Self { page, limit, path: parts.uri.path().to_owned() })
    }
}

impl PageNumber {
    pub(super) fn list<T: serde::Serialize>(&self, page: NumberedPage<T>) -> impl IntoResponse {
        let total_pages = (page.total + self.limit - 1) / self.limit;
        let has_more = self.page < total_pages;
        let to =
            |rel: &str, page: i64| format!("<{}?page={page}&limit={}>; rel=\"{rel}\"", self.path, self.limit);
        let mut links = vec![to("first", 1)];
        links.extend((self.page > 1).then(|| to("prev", self.page - 1)));
        links.extend(has_more.then(|| to("next", self.page + 1)));
        links.push(to("last", total_pages.max(1)));
        let pagination =
            PageNumbers { page: self.page, limit: self.limit, total: page.total, total_pages, has_more };
        ([("link", links.join(", "))], axum::Json(Numbered { data: page.items, pagination }))
    }
}

/// Pagination by `limit` and `offset` or `cursor`.
pub(super) struct PageQuery {
    pub(super) limit: i64,
    pub(super) params: QueryParams,
    offset: i64,
    cursor: Option<String>,
    path: String,
}

impl<S: Send + Sync> FromRequestParts<S> for PageQuery {
    type Rejection = AppError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, AppError> {
        let params = QueryParams::from_request_parts(parts, state).await?;
        let limit = params.integer("limit", 1, PAGE_SIZE_MAX)?.unwrap_or(PAGE_SIZE_DEFAULT);
        let offset = params.integer("offset", 0, OFFSET_MAX)?;
        let cursor = params.get("cursor")?.map(str::to_owned);
        if offset.is_some() && cursor.is_some() {
            return Err(AppError::invalid_parameter("cursor", "cannot be combined with offset"));
        }
        let path = parts.uri.path().to_owned();
        Ok(Self { limit, params, offset: offset.unwrap_or(0), cursor, path })
    }
}

impl PageQuery {
    /// Returns where the page starts. `K` is the type of the keys in this list's cursors.
    pub(super) fn start<K: FromStr>(&self) -> Result<PageStart, AppError> {
        let Some(cursor) = &self.cursor else { return Ok(PageStart::Offset(self.offset)) };
        let key = URL_SAFE_NO_PAD.decode(cursor).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        match key.filter(|key| !key.is_empty() && key.parse::<K>().is_ok()) {
            Some(key) => Ok(PageStart::After(key)),
            None => Err(AppError::invalid_parameter("cursor", "must be a nextCursor of this list")),
        }
    }

    pub(super) fn list<T>(&self, page: ResponsePage<T>) -> ListResponse<T> {
        let next_cursor = page.last.filter(|_| page.has_more).map(|key| URL_SAFE_NO_PAD.encode(key));
        let link = self.link(next_cursor.as_deref(), page.total, page.has_more);
        let pagination = PageInfo {
            limit: self.limit,
            offset: self.offset,
            total: page.total,
            has_more: page.has_more,
            next_cursor,
        };
        ListResponse { link, list: List { data: page.items, pagination } }
    }

    fn link(&self, next_cursor: Option<&str>, total: Option<i64>, has_more: bool) -> String {
        let to = |rel: &str, position: String| {
            let read = self.params.pairs.iter().filter(|param| param.is_read.load(Ordering::Relaxed));
            let rest = read.filter(|param| !["limit", "offset", "cursor"].contains(&param.name.as_str()));
            let rest: String = rest
                .map(|param| format!("&{}={}", percent_encode(&param.name), percent_encode(&param.value)))
                .collect();
            format!("<{}?limit={}{position}{rest}>; rel=\"{rel}\"", self.path, self.limit)
        };
        let mut links = vec![to("first", String::new())];
        let by_offset = self.cursor.is_none();
        if by_offset && self.offset > 0 {
            links.push(to("prev", format!("&offset={}", (self.offset - self.limit).max(0))));
        }
        match next_cursor {
            _ if by_offset && has_more => {
                links.push(to("next", format!("&offset={}", self.offset + self.limit)));
            }
            Some(cursor) => links.push(to("next", format!("&cursor={cursor}"))),
            None => {}
        }
        if let Some(total) = total.filter(|_| by_offset) {
            links.push(to("last", format!("&offset={}", (total - 1).max(0) / self.limit * self.limit)));
        }
        links.join(", ")
    }
}

/// A page of a list with its `Link` header.
pub(super) struct ListResponse<T> {
    pub(super) link: String,
    pub(super) list: List<T>,
}

fn percent_encode(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~');
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// The version from `If-Match`. `None` if the header is missing or `*`.
pub(super) struct IfMatch(pub(super) Option<i64>);

impl<S: Send + Sync> FromRequestParts<S> for IfMatch {
    type Rejection = AppError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, AppError> {
        let Some(value) = parts.headers.get(header::IF_MATCH) else { return Ok(Self(None)) };
        let text = value.to_str().unwrap_or_default().trim();
        if parts.headers.get_all(header::IF_MATCH).iter().count() > 1 {
            return Err(AppError::invalid_parameter("If-Match", "is given more than once"));
        }
        if text == "*" {
            return Ok(Self(None));
        }
        let quoted = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
        let quoted = quoted.filter(|text| !text.contains('"'));
        // For a change, only the version matters. Ignore the variant after the dot.
        let version = quoted.and_then(|text| text.split('.').next()?.parse().ok());
        let wanted = "must be one entity tag from an ETag header, like \"7\"";
        version
            .map(|version| Self(Some(version)))
            .ok_or_else(|| AppError::invalid_parameter("If-Match", wanted))
    }
}
