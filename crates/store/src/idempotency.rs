//! Idempotency keys: the response to a successful request is stored, and a retry with the same key gets that response.

use aws_lc_rs::digest;
use berth_core::time::Timestamp;

use crate::error::StoreError;
use crate::sql::{BoundRead, json_columns, statements};
use crate::tx::{StoreRead, Tx};

/// How long responses are stored, in seconds.
pub const IDEMPOTENCY_KEPT_S: i64 = 7 * 24 * 60 * 60;
/// Maximum number of responses that one cleanup deletes.
pub const FORGET_BATCH_MAX: u64 = 1_000;

statements! {
    Instance Read EMIT_WAL_RECORD = "SELECT {emit_wal_record}";
    Instance Read FIND = "SELECT request_hash, status, headers, body FROM stored_responses
        WHERE digest = $1 AND created_at > $2";
    // Replaces an existing response only if that one has expired but was not deleted yet.
    Instance Upkeep REMEMBER = "INSERT INTO stored_responses (digest, request_hash, status, headers, body, created_at)
        VALUES ($1, $2, $3, $4, $5, $6)
        ON CONFLICT (digest) DO UPDATE SET request_hash = excluded.request_hash, status = excluded.status,
          headers = excluded.headers, body = excluded.body, created_at = excluded.created_at
        WHERE stored_responses.created_at <= $7";
    Instance Upkeep FORGET = "DELETE FROM stored_responses WHERE digest IN
        (SELECT digest FROM stored_responses WHERE created_at <= $1 ORDER BY created_at LIMIT $2)";
}

json_columns!(Vec<(String, String)>);

/// SHA-256 of the caller, the operation and the idempotency key.
type KeyDigest = [u8; 32];

/// The idempotency key of a request.
#[derive(Debug, Clone)]
pub struct IdempotencyKey {
    digest: KeyDigest,
    /// Keyed hash of the request body.
    request_hash: Vec<u8>,
}

impl IdempotencyKey {
    /// `caller` is the id of a token or a user, so the keys of different callers are independent. `operation` is the
    /// HTTP
    /// method and the canonical path. None of these three strings may contain a line break.
    pub fn new(caller: &str, operation: &str, key: &str, request_hash: Vec<u8>) -> Self {
        let text = [caller, operation, key].join("\n");
        let mut digest = KeyDigest::default();
        digest.copy_from_slice(digest::digest(&digest::SHA256, text.as_bytes()).as_ref());
        Self { digest, request_hash }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredResponse {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

#[derive(Debug, PartialEq, Eq)]
pub enum KeyLookup {
    None,
    Same(StoredResponse),
    /// The key was used before, for a different request.
    Different,
}

/// Called before a stored response is sent again. When this transaction has committed, the commit that stored the
/// response is durable too.
pub fn ensure_durable(tx: &mut Tx<'_>) -> Result<(), StoreError> {
    tx.row(&EMIT_WAL_RECORD, &[]).map(drop)
}

/// The read of [`find`].
pub fn read_of_find(db: &impl StoreRead, once: &IdempotencyKey) -> BoundRead {
    let oldest = db.now().plus_seconds(-IDEMPOTENCY_KEPT_S);
    BoundRead::new(&FIND, [once.digest.as_slice().into(), oldest.into()])
}

pub fn find(tx: &mut Tx<'_>, once: &IdempotencyKey) -> Result<KeyLookup, StoreError> {
    type ResponseColumns = (Vec<u8>, u16, Vec<(String, String)>, String);
    let found: Vec<ResponseColumns> = tx.fetch_bound(&read_of_find(tx, once))?;
    Ok(match found.into_iter().next() {
        None => KeyLookup::None,
        Some((hash, ..)) if hash != once.request_hash => KeyLookup::Different,
        Some((_, status, headers, body)) => KeyLookup::Same(StoredResponse { status, headers, body }),
    })
}

pub fn store_response(
    tx: &mut Tx<'_>,
    once: &IdempotencyKey,
    answer: &StoredResponse,
) -> Result<(), StoreError> {
    let now = tx.now();
    let expired = now.plus_seconds(-IDEMPOTENCY_KEPT_S);
    let StoredResponse { status, headers, body } = answer;
    tx.put(&REMEMBER, &(&once.digest[..], &once.request_hash, status, headers, body, now, expired))
}

/// Deletes a batch of expired responses and returns their number.
pub fn delete_expired(tx: &mut Tx<'_>, now: Timestamp) -> Result<u64, StoreError> {
    let oldest = now.plus_seconds(-IDEMPOTENCY_KEPT_S);
    let params = [oldest.into(), i64::try_from(FORGET_BATCH_MAX).unwrap_or(i64::MAX).into()];
    tx.execute(&FORGET, &params)
}
