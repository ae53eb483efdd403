//! Request ids: the client's own, or generated ones.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use berth_engine::credential::BASE62;
use http::header::{HeaderMap, HeaderName};

use crate::auth::tokens::looks_like_token;
use crate::limits::REQUEST_ID_BYTES_MAX;

pub(super) static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Returns the request id that the client sent, if it is usable, or a new one.
pub(super) fn request_id(headers: &HeaderMap) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    headers
        .get(&REQUEST_ID)
        .and_then(|value| value.to_str().ok())
        .filter(|id| (1..=REQUEST_ID_BYTES_MAX).contains(&id.len()) && id.bytes().all(plain))
        // Request ids appear in logs and events, so a credential sent in this header must not be used.
        .filter(|id| !looks_like_token(id))
        .map_or_else(new_request_id, str::to_owned)
}

/// Generates a request id from a keyed hash of a counter. This is cheap, and request ids need not be unpredictable.
fn new_request_id() -> String {
    static KEYS: LazyLock<[RandomState; 2]> = LazyLock::new(Default::default);
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let mut id = *b"req_0000000000000000000000";
    for (keys, digits) in KEYS.iter().zip(id[4..].chunks_exact_mut(11)) {
        let mut rest = keys.hash_one(count);
        for digit in digits {
            *digit = BASE62[(rest % 62) as usize];
            rest /= 62;
        }
    }
    id.iter().copied().map(char::from).collect()
}
