//! Answers kept for repeats: the same key and the same request get the same answer, once it was a success.

use aws_lc_rs::digest;
use berth_core::time::Timestamp;

use crate::answer_keys::{self, Digest};
use crate::error::StoreError;
use crate::sql::statements;
use crate::tx::{Read, Tx};
use crate::value::to_json;

/// How long an answer is kept.
pub const IDEMPOTENCY_KEPT_S: i64 = 7 * 24 * 60 * 60;
/// How many old answers one sweep removes.
pub const FORGET_BATCH_MAX: u64 = 1_000;

statements! {
    Instance Read FIND = "SELECT a.request_hash, a.status, a.headers, a.body FROM answer_keys k
        JOIN answers a ON a.created_at = k.created_at AND a.digest = k.digest
        WHERE k.digest = $1 AND k.created_at > $2";
    Instance Read FIND_AT = "SELECT request_hash, status, headers, body FROM answers
        WHERE digest = $1 AND created_at > $2 AND created_at = $3";
    Instance Upkeep REMEMBER = "INSERT INTO answers (created_at, digest, request_hash, status, headers, body)
        VALUES ($1, $2, $3, $4, $5, $6)";
    Instance Upkeep FORGET_KEYS = "DELETE FROM answer_keys WHERE created_at <= $1 AND digest IN
        (SELECT digest FROM answers WHERE created_at <= $1 ORDER BY created_at, digest LIMIT $2)";
    Instance Upkeep FORGET = "DELETE FROM answers WHERE (created_at, digest) IN
        (SELECT created_at, digest FROM answers WHERE created_at <= $1 ORDER BY created_at, digest LIMIT $2)";
}

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

/// Before it is told again: whoever hears of that commit may rely on it as on one that was made now.
pub fn vouch(tx: &mut Tx<'_>) -> Result<(), StoreError> {
    tx.vouch()
}

/// Not for those who only look: keys of the last answers may be known to the writer alone.
pub fn find(tx: &mut Tx<'_>, once: &OnceKey) -> Result<Earlier, StoreError> {
    let oldest = tx.now().plus_seconds(-IDEMPOTENCY_KEPT_S);
    let params = [once.digest.as_slice().into(), oldest.into()];
    let found = match tx.unkeyed().and_then(|unkeyed| unkeyed.given_at(&once.digest)) {
        None => tx.row(&FIND, &params)?,
        Some(at) => {
            let [digest, oldest] = params;
            tx.row(&FIND_AT, &[digest, oldest, at.into()])?
        }
    };
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
        now.into(),
        once.digest.as_slice().into(),
        once.request_hash.as_slice().into(),
        i64::from(answer.status).into(),
        to_json(&answer.headers)?.into(),
        answer.body.as_str().into(),
    ];
    tx.execute(&REMEMBER, &params)?;
    answer_keys::add(tx, once.digest, now)
}

/// Removes answers older than they are kept; returns how many.
pub fn forget(tx: &mut Tx<'_>, now: Timestamp) -> Result<u64, StoreError> {
    let oldest = now.plus_seconds(-IDEMPOTENCY_KEPT_S);
    let params = [oldest.into(), i64::try_from(FORGET_BATCH_MAX).unwrap_or(i64::MAX).into()];
    tx.execute(&FORGET_KEYS, &params)?;
    tx.execute(&FORGET, &params)
}
