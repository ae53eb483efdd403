//! Browser logins, and counters of failed logins.

use berth_core::client_info::ClientInfo;
use berth_core::id::{SignInId, UserId};
use berth_core::time::Timestamp;

use super::cli_login;
use crate::error::StoreError;
use crate::pagination::{ListPage, PageStart, fetch_bounded_count, fetch_page};
use crate::sql::value::{SqlValue, text};
use crate::sql::{from_row, statements};
use crate::tx::{StoreRead, Tx};

/// Idle time after which a browser must log in again.
pub const SIGN_IN_IDLE_S_MAX: i64 = 12 * 60 * 60;
/// Time after which a browser must log in again, even if it was never idle.
pub const SIGN_IN_AGE_S_MAX: i64 = 7 * 24 * 60 * 60;
/// Failure counters are kept for one hour, which is longer than any rate-limit window except a day's.
const FAILURES_KEPT_S: i64 = 60 * 60;
const DAILY_FAILURES_KEPT_S: i64 = 25 * 60 * 60;
/// The start of the names of counters for a whole day.
pub const DAILY_FAILURES_PREFIX: &str = "day:";

statements! {
    Instance Read BY_HASH = "SELECT id, user_id, last_seen_at, confirmed_at FROM sign_ins
        WHERE hash = $1 AND created_at > $2 AND last_seen_at > $3";
    Instance Read BY_ID = "SELECT id, user_id, last_seen_at, confirmed_at FROM sign_ins
        WHERE id = $1 AND created_at > $2 AND last_seen_at > $3";
    Instance Read LIST = "SELECT id, created_at, last_seen_at, address, user_agent FROM sign_ins
        WHERE user_id = $1 AND created_at > $2 AND last_seen_at > $3 AND id > $4 ORDER BY id LIMIT $5 OFFSET $6";
    Instance Read COUNT = "SELECT CAST(COUNT(*) AS BIGINT) FROM (SELECT id FROM sign_ins
        WHERE user_id = $1 AND created_at > $2 AND last_seen_at > $3 LIMIT $4) AS counted";
    Instance Read OF_USER = "SELECT id, created_at, last_seen_at, address, user_agent FROM sign_ins
        WHERE user_id = $1 AND created_at > $2 AND last_seen_at > $3 AND id = $4";
    Instance Upkeep INSERT = "INSERT INTO sign_ins
        (id, user_id, hash, created_at, last_seen_at, confirmed_at, address, user_agent)
        VALUES ($1, $2, $3, $4, $4, $4, $5, $6)";
    Instance Upkeep CONFIRM = "UPDATE sign_ins SET confirmed_at = $2 WHERE id = $1";
    Instance Upkeep SEEN = "UPDATE sign_ins SET last_seen_at = $2, address = $3, user_agent = $4 WHERE id = $1";
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
    Instance Upkeep FORGET_FAILURES = "DELETE FROM sign_in_failures
        WHERE window_started_at <= $1 AND (subject NOT LIKE 'day:%' OR window_started_at <= $2)";
}

/// A browser that is logged in.
#[derive(Debug, Clone)]
pub struct SignIn {
    pub id: SignInId,
    pub user: UserId,
    pub last_seen_at: Timestamp,
    /// When the user last entered the password in this browser.
    pub confirmed_at: Timestamp,
}
from_row!(SignIn { id, user, last_seen_at, confirmed_at });

/// A login as its user sees it.
#[derive(Debug, Clone)]
pub struct ActiveSignIn {
    pub id: SignInId,
    pub created_at: Timestamp,
    pub last_seen_at: Timestamp,
    /// Address of the last request.
    pub address: String,
    pub user_agent: String,
}
from_row!(ActiveSignIn { id, created_at, last_seen_at, address, user_agent });

/// The times before which a login has expired: the first is for its creation, the second for its last use.
fn expiry_bounds(now: Timestamp) -> [SqlValue; 2] {
    [now.plus_seconds(-SIGN_IN_AGE_S_MAX).into(), now.plus_seconds(-SIGN_IN_IDLE_S_MAX).into()]
}

/// Finds the login with this cookie, if it is still valid.
pub fn by_hash(db: &mut impl StoreRead, hash: &[u8], now: Timestamp) -> Result<Option<SignIn>, StoreError> {
    let [oldest, idle] = expiry_bounds(now);
    db.fetch_optional(&BY_HASH, &[hash.into(), oldest, idle])
}

/// Finds the login with this id, if it is still valid.
pub fn by_id(db: &mut impl StoreRead, id: SignInId, now: Timestamp) -> Result<Option<SignIn>, StoreError> {
    let [oldest, idle] = expiry_bounds(now);
    db.fetch_optional(&BY_ID, &[text(id), oldest, idle])
}

/// Lists the valid logins of a user.
pub fn list_of_user(
    db: &mut impl StoreRead,
    user: UserId,
    from: &PageStart,
    limit: i64,
) -> Result<ListPage<ActiveSignIn>, StoreError> {
    let [oldest, idle] = expiry_bounds(db.now());
    let filter = [text(user), oldest, idle];
    let total = fetch_bounded_count(db, &COUNT, &filter)?;
    Ok(fetch_page(db, &LIST, &filter, from.by_id(), limit)?.with_total(total))
}

/// Finds a valid login of this user.
pub fn find_of_user(
    db: &mut impl StoreRead,
    user: UserId,
    id: SignInId,
) -> Result<Option<ActiveSignIn>, StoreError> {
    let [oldest, idle] = expiry_bounds(db.now());
    db.fetch_optional(&OF_USER, &[text(user), oldest, idle, text(id)])
}

pub fn insert(
    tx: &mut Tx<'_>,
    id: SignInId,
    user: UserId,
    hash: &[u8],
    client: &ClientInfo,
) -> Result<(), StoreError> {
    let now = tx.now();
    let [address, user_agent] = client_params(client);
    tx.execute_one(&INSERT, &[text(id), text(user), hash.into(), now.into(), address, user_agent])
}

/// Records that the browser has just sent a request.
pub fn touch(tx: &mut Tx<'_>, id: SignInId, client: &ClientInfo) -> Result<(), StoreError> {
    let now = tx.now();
    let [address, user_agent] = client_params(client);
    tx.execute(&SEEN, &[text(id), now.into(), address, user_agent]).map(drop)
}

fn client_params(client: &ClientInfo) -> [SqlValue; 2] {
    [text(client.address()), client.user_agent().into()]
}

/// Records that the user has just entered the password.
pub fn confirm(tx: &mut Tx<'_>, id: SignInId) -> Result<(), StoreError> {
    let now = tx.now();
    tx.execute(&CONFIRM, &[text(id), now.into()]).map(drop)
}

/// Sets when the user last proved their identity in this browser.
pub fn set_confirmed_at(tx: &mut Tx<'_>, id: SignInId, at: Timestamp) -> Result<(), StoreError> {
    tx.execute(&CONFIRM, &[text(id), at.into()]).map(drop)
}

pub fn end(tx: &mut Tx<'_>, id: SignInId) -> Result<(), StoreError> {
    tx.execute(&END, &[text(id)]).map(drop)
}

/// Ends all logins of a user except one, and returns how many ended. Logins of the CLI that the user has approved but
/// that have no token yet are cancelled.
pub fn end_others(tx: &mut Tx<'_>, user: UserId, kept: SignInId) -> Result<u64, StoreError> {
    cli_login::delete_of_user(tx, user)?;
    tx.execute(&END_OTHERS, &[text(user), text(kept)])
}

/// Like [`end_others`], without an exception.
pub fn end_all(tx: &mut Tx<'_>, user: UserId) -> Result<u64, StoreError> {
    cli_login::delete_of_user(tx, user)?;
    tx.execute(&END_ALL, &[text(user)])
}

/// Deletes expired logins and old failure counters.
pub fn delete_expired(tx: &mut Tx<'_>) -> Result<(), StoreError> {
    let now = tx.now();
    tx.execute(&END_OLD, &expiry_bounds(now))?;
    let before = [FAILURES_KEPT_S, DAILY_FAILURES_KEPT_S].map(|kept| now.plus_seconds(-kept).into());
    tx.execute(&FORGET_FAILURES, &before).map(drop)
}

/// Number of failed logins in the current window, for an account or from a network. 0 if the window started before
/// `since`.
pub fn count_failures(db: &mut impl StoreRead, subject: &str, since: Timestamp) -> Result<i64, StoreError> {
    db.fetch_count(&FAILURES, &[subject.into(), since.into()])
}

/// Counts a failed login. Starts a new window if the current one started before `since`.
pub fn record_failure(tx: &mut Tx<'_>, subject: &str, since: Timestamp) -> Result<(), StoreError> {
    let now = tx.now();
    tx.execute(&FAILED, &[subject.into(), now.into(), since.into()]).map(drop)
}

/// Subtracts a failure. A login attempt is counted as a failure in advance, and this is called if it succeeds.
pub fn uncount_failure(tx: &mut Tx<'_>, subject: &str) -> Result<(), StoreError> {
    tx.execute(&TAKE_BACK_FAILURE, &[subject.into()]).map(drop)
}
