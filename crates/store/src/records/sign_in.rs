//! Signed-in browsers, and failed attempts to sign in.

use berth_core::id::{SignInId, UserId};
use berth_core::time::Timestamp;

use crate::error::StoreError;
use crate::sql::statements;
use crate::tx::{Read, Tx};
use crate::value::{Row, text};

/// A browser unused for so long must sign in again.
pub const SIGN_IN_IDLE_S_MAX: i64 = 12 * 60 * 60;
/// And any browser after so long.
pub const SIGN_IN_AGE_S_MAX: i64 = 7 * 24 * 60 * 60;

statements! {
    Instance Read BY_HASH = "SELECT id, user_id, last_seen_at, confirmed_at FROM sign_ins
        WHERE hash = $1 AND created_at > $2 AND last_seen_at > $3";
    Instance Read BY_ID = "SELECT id, user_id, last_seen_at, confirmed_at FROM sign_ins
        WHERE id = $1 AND created_at > $2 AND last_seen_at > $3";
    Instance Upkeep INSERT = "INSERT INTO sign_ins (id, user_id, hash, created_at, last_seen_at, confirmed_at)
        VALUES ($1, $2, $3, $4, $4, $4)";
    Instance Upkeep CONFIRM = "UPDATE sign_ins SET confirmed_at = $2 WHERE id = $1";
    Instance Upkeep SEEN = "UPDATE sign_ins SET last_seen_at = $2 WHERE id = $1";
    Instance Upkeep END = "DELETE FROM sign_ins WHERE id = $1";
    Instance Upkeep END_ALL = "DELETE FROM sign_ins WHERE user_id = $1";
    Instance Upkeep END_OTHERS = "DELETE FROM sign_ins WHERE user_id = $1 AND id <> $2";
    Instance Upkeep END_OLD = "DELETE FROM sign_ins WHERE created_at <= $1 OR last_seen_at <= $2";
    Instance Read FAILURES = "SELECT failures FROM sign_in_failures WHERE subject = $1 AND window_started_at > $2";
    Instance Upkeep FAILED = "INSERT INTO sign_in_failures (subject, window_started_at, failures)
        VALUES ($1, $2, CAST(1 AS BIGINT))
        ON CONFLICT (subject) DO UPDATE SET
          failures = CASE WHEN sign_in_failures.window_started_at > $3 THEN sign_in_failures.failures + 1 ELSE 1 END,
          window_started_at = CASE WHEN sign_in_failures.window_started_at > $3
            THEN sign_in_failures.window_started_at ELSE excluded.window_started_at END";
    Instance Upkeep TAKE_BACK_FAILURE = "UPDATE sign_in_failures SET failures = failures - 1
        WHERE subject = $1 AND failures > 0";
    Instance Upkeep FORGET_FAILURES = "DELETE FROM sign_in_failures WHERE window_started_at <= $1";
}

#[derive(Debug, Clone)]
pub struct SignIn {
    pub id: SignInId,
    pub user: UserId,
    pub last_seen_at: Timestamp,
    /// When the password was last checked in this browser.
    pub confirmed_at: Timestamp,
}

fn read(row: &Row) -> Result<SignIn, StoreError> {
    Ok(SignIn {
        id: row.parse(0)?,
        user: row.parse(1)?,
        last_seen_at: row.time(2)?,
        confirmed_at: row.time(3)?,
    })
}

pub fn by_hash(db: &mut impl Read, hash: &[u8], now: Timestamp) -> Result<Option<SignIn>, StoreError> {
    let oldest = now.plus_seconds(-SIGN_IN_AGE_S_MAX);
    let idle = now.plus_seconds(-SIGN_IN_IDLE_S_MAX);
    db.row(&BY_HASH, &[hash.into(), oldest.into(), idle.into()])?.as_ref().map(read).transpose()
}

/// The sign-in, if it has not ended since.
pub fn by_id(db: &mut impl Read, id: SignInId, now: Timestamp) -> Result<Option<SignIn>, StoreError> {
    let oldest = now.plus_seconds(-SIGN_IN_AGE_S_MAX);
    let idle = now.plus_seconds(-SIGN_IN_IDLE_S_MAX);
    db.row(&BY_ID, &[text(id), oldest.into(), idle.into()])?.as_ref().map(read).transpose()
}

pub fn begin(tx: &mut Tx<'_>, id: SignInId, user: UserId, hash: &[u8]) -> Result<(), StoreError> {
    let now = tx.now();
    tx.execute_one(&INSERT, &[text(id), text(user), hash.into(), now.into()])
}

pub fn seen(tx: &mut Tx<'_>, id: SignInId) -> Result<(), StoreError> {
    let now = tx.now();
    tx.execute(&SEEN, &[text(id), now.into()]).map(drop)
}

pub fn confirm(tx: &mut Tx<'_>, id: SignInId) -> Result<(), StoreError> {
    let now = tx.now();
    tx.execute(&CONFIRM, &[text(id), now.into()]).map(drop)
}

pub fn end(tx: &mut Tx<'_>, id: SignInId) -> Result<(), StoreError> {
    tx.execute(&END, &[text(id)]).map(drop)
}

/// Ends every sign-in of the user but this one.
pub fn end_others(tx: &mut Tx<'_>, user: UserId, kept: SignInId) -> Result<(), StoreError> {
    tx.execute(&END_OTHERS, &[text(user), text(kept)]).map(drop)
}

pub fn end_all(tx: &mut Tx<'_>, user: UserId) -> Result<(), StoreError> {
    tx.execute(&END_ALL, &[text(user)]).map(drop)
}

pub fn forget_old(tx: &mut Tx<'_>) -> Result<(), StoreError> {
    let now = tx.now();
    let oldest = now.plus_seconds(-SIGN_IN_AGE_S_MAX);
    let idle = now.plus_seconds(-SIGN_IN_IDLE_S_MAX);
    tx.execute(&END_OLD, &[oldest.into(), idle.into()])?;
    // A window lasts a minute; an hour is more than anybody asks back.
    tx.execute(&FORGET_FAILURES, &[now.plus_seconds(-60 * 60).into()]).map(drop)
}

/// Failures of an account or network within the window that began after `since`.
pub fn failures(db: &mut impl Read, subject: &str, since: Timestamp) -> Result<i64, StoreError> {
    db.row(&FAILURES, &[subject.into(), since.into()])?.map_or(Ok(0), |row| row.int(0))
}

/// Counts a failure; a window that began before `since` is over and starts anew.
pub fn failed(tx: &mut Tx<'_>, subject: &str, since: Timestamp) -> Result<(), StoreError> {
    let now = tx.now();
    tx.execute(&FAILED, &[subject.into(), now.into(), since.into()]).map(drop)
}

/// What was counted was none.
pub fn take_back_failure(tx: &mut Tx<'_>, subject: &str) -> Result<(), StoreError> {
    tx.execute(&TAKE_BACK_FAILURE, &[subject.into()]).map(drop)
}
