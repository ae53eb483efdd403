//! Answers kept for repeats: the same key and the same request get the same answer, once it was a success.

use aws_lc_rs::digest;
use berth_core::time::Timestamp;

use crate::error::StoreError;
use crate::sql::statements;
use crate::tx::{Read, Tx};
use crate::value::{Value, to_json};

/// How long an answer is kept.
pub const IDEMPOTENCY_KEPT_S: i64 = 7 * 24 * 60 * 60;
/// How many old answers one sweep removes.
pub const FORGET_BATCH_MAX: u64 = 1_000;

statements! {
    // Those of older versions are in a table of their own.
    Instance Read FIND = "SELECT request_hash, status, headers, body FROM stored_answers
        WHERE digest = $1 AND created_at > $2
        UNION ALL SELECT request_hash, status, headers, body FROM idempotency
        WHERE caller = $3 AND operation = $4 AND idempotency_key = $5 AND created_at > $2 LIMIT 1";
    Instance Upkeep REMEMBER = "INSERT INTO stored_answers (digest, request_hash, status, headers, body, created_at)
        VALUES ($1, $2, $3, $4, $5, $6)
        ON CONFLICT (digest) DO UPDATE SET request_hash = excluded.request_hash, status = excluded.status,
          headers = excluded.headers, body = excluded.body, created_at = excluded.created_at";
    Instance Upkeep FORGET_OLDER = "DELETE FROM idempotency WHERE created_at <= $1";
    Instance Upkeep FORGET = "DELETE FROM stored_answers WHERE digest IN
        (SELECT digest FROM stored_answers WHERE created_at <= $1 ORDER BY created_at LIMIT $2)";
}

/// One request that may be repeated.
#[derive(Debug, Clone)]
pub struct OnceKey {
    /// The token or the user: a key of one caller means nothing to another.
    pub caller: String,
    /// Method and canonical path.
    pub operation: String,
    pub key: String,
    /// Keyed hash of the body.
    pub request_hash: Vec<u8>,
}

impl OnceKey {
    /// None of the three can hold a line break.
    fn digest(&self) -> Value {
        let text = [self.caller.as_str(), &self.operation, &self.key].join("\n");
        digest::digest(&digest::SHA256, text.as_bytes()).as_ref().into()
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

pub fn find(db: &mut impl Read, once: &OnceKey) -> Result<Earlier, StoreError> {
    let oldest = db.now().plus_seconds(-IDEMPOTENCY_KEPT_S);
    let [caller, operation, key] =
        [&once.caller, &once.operation, &once.key].map(|part| part.as_str().into());
    let found = db.row(&FIND, &[once.digest(), oldest.into(), caller, operation, key])?;
    let Some(row) = found else { return Ok(Earlier::None) };
    if row.bytes(0)? != once.request_hash {
        return Ok(Earlier::Different);
    }
    let status = u16::try_from(row.int(1)?).map_err(|_| StoreError::Bug("status out of range".into()))?;
    Ok(Earlier::Same(StoredAnswer { status, headers: row.json(2)?, body: row.text(3)?.to_owned() }))
}

pub fn remember(tx: &mut Tx<'_>, once: &OnceKey, answer: &StoredAnswer) -> Result<(), StoreError> {
    let params = [
        once.digest(),
        once.request_hash.as_slice().into(),
        i64::from(answer.status).into(),
        to_json(&answer.headers)?.into(),
        answer.body.as_str().into(),
        tx.now().into(),
    ];
    tx.execute(&REMEMBER, &params).map(drop)
}

/// Removes answers older than they are kept; returns how many.
pub fn forget(tx: &mut Tx<'_>, now: Timestamp) -> Result<u64, StoreError> {
    let oldest = now.plus_seconds(-IDEMPOTENCY_KEPT_S);
    tx.execute(&FORGET_OLDER, &[oldest.into()])?;
    tx.execute(&FORGET, &[oldest.into(), i64::try_from(FORGET_BATCH_MAX).unwrap_or(i64::MAX).into()])
}
