//! Answers kept for repeats: the same key and the same request get the same answer, once it was a success.

use aws_lc_rs::digest;
use berth_core::time::Timestamp;

use crate::error::StoreError;
use crate::sql::statements;
use crate::tx::{Read, Tx};
use crate::value::to_json;

/// How long an answer is kept.
pub const IDEMPOTENCY_KEPT_S: i64 = 7 * 24 * 60 * 60;
/// How many old answers one sweep removes.
pub const FORGET_BATCH_MAX: u64 = 1_000;

statements! {
    Instance Read EMIT_WAL_RECORD = "SELECT {emit_wal_record}";
    Instance Read FIND = "SELECT request_hash, status, headers, body FROM stored_responses
        WHERE digest = $1 AND created_at > $2";
    // Replaces only one that has expired and was not removed yet.
    Instance Upkeep REMEMBER = "INSERT INTO stored_responses (digest, request_hash, status, headers, body, created_at)
        VALUES ($1, $2, $3, $4, $5, $6)
        ON CONFLICT (digest) DO UPDATE SET request_hash = excluded.request_hash, status = excluded.status,
          headers = excluded.headers, body = excluded.body, created_at = excluded.created_at
        WHERE stored_responses.created_at <= $7";
    Instance Upkeep FORGET = "DELETE FROM stored_responses WHERE digest IN
        (SELECT digest FROM stored_responses WHERE created_at <= $1 ORDER BY created_at LIMIT $2)";
}

/// SHA-256 of the caller, the operation and the idempotency key.
type Digest = [u8; 32];

/// One request that may be repeated.
#[derive(Debug, Clone)]
pub struct OnceKey {
    digest: Digest,
    /// Keyed hash of the body.
    request_hash: Vec<u8>,
}

impl OnceKey {
    /// The caller is a token or a user: a key of one means nothing to another. The operation is method and canonical path.
    /// None of the three can hold a line break.
    pub fn new(caller: &str, operation: &str, key: &str, request_hash: Vec<u8>) -> Self {
        let text = [caller, operation, key].join("\n");
        let mut digest = Digest::default();
        digest.copy_from_slice(digest::digest(&digest::SHA256, text.as_bytes()).as_ref());
        Self { digest, request_hash }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredAnswer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Earlier {
    None,
    Same(StoredAnswer),
    /// The key was used for a different request.
    Different,
}

/// Before a stored response is replayed: the commit it came from becomes as durable as this transaction.
pub fn vouch(tx: &mut Tx<'_>) -> Result<(), StoreError> {
    tx.row(&EMIT_WAL_RECORD, &[]).map(drop)
}

pub fn find(tx: &mut Tx<'_>, once: &OnceKey) -> Result<Earlier, StoreError> {
    let oldest = tx.now().plus_seconds(-IDEMPOTENCY_KEPT_S);
    let found = tx.row(&FIND, &[once.digest.as_slice().into(), oldest.into()])?;
    let Some(row) = found else { return Ok(Earlier::None) };
    if row.bytes(0)? != once.request_hash {
        return Ok(Earlier::Different);
    }
    let status = u16::try_from(row.int(1)?).map_err(|_| StoreError::Bug("status out of range".into()))?;
    Ok(Earlier::Same(StoredAnswer { status, headers: row.json(2)?, body: row.text(3)?.to_owned() }))
}

pub fn remember(tx: &mut Tx<'_>, once: &OnceKey, answer: &StoredAnswer) -> Result<(), StoreError> {
    let now = tx.now();
    let params = [
        once.digest.as_slice().into(),
        once.request_hash.as_slice().into(),
        i64::from(answer.status).into(),
        to_json(&answer.headers)?.into(),
        answer.body.as_str().into(),
        now.into(),
        now.plus_seconds(-IDEMPOTENCY_KEPT_S).into(),
    ];
    tx.execute_one(&REMEMBER, &params)
}

/// Removes answers older than they are kept; returns how many.
pub fn forget(tx: &mut Tx<'_>, now: Timestamp) -> Result<u64, StoreError> {
    let oldest = now.plus_seconds(-IDEMPOTENCY_KEPT_S);
    let params = [oldest.into(), i64::try_from(FORGET_BATCH_MAX).unwrap_or(i64::MAX).into()];
    tx.execute(&FORGET, &params)
}
