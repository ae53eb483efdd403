//! Second factors (TOTP) of accounts, and their recovery codes.

use berth_core::id::{OrgId, UserId};
use berth_core::time::Timestamp;

use crate::error::StoreError;
use crate::sql::value::text;
use crate::sql::{SqlText, from_row, sql, statements};
use crate::tx::{StoreRead, Tx};

/// Whether the account `u` lacks the second factor that the organization `o` requires. Service accounts and accounts
/// without a password are exempt.
pub(super) const IS_MISSING_TEXT: &str = "o.require_second_factor = 1 AND u.kind = 'person'
    AND u.password_hash IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM second_factors f WHERE f.user_id = u.id AND f.confirmed_at IS NOT NULL)";

const fn select_missing() -> SqlText {
    let text = sql("SELECT CAST(1 AS BIGINT) FROM memberships m
        JOIN organizations o ON o.id = m.org_id JOIN users u ON u.id = m.user_id
        WHERE m.org_id = $1 AND m.user_id = $2 AND ");
    text.then(IS_MISSING_TEXT)
}

statements! {
    Instance Read BY_USER = "SELECT user_id, sealed, created_at, confirmed_at, last_step FROM second_factors
        WHERE user_id = $1 {for_update}";
    Instance Read COUNT_CODES = "SELECT CAST(COUNT(*) AS BIGINT) FROM recovery_codes WHERE user_id = $1";
    Org Read IS_REQUIRED = "SELECT o.require_second_factor FROM memberships m
        JOIN organizations o ON o.id = m.org_id WHERE m.org_id = $1 LIMIT 1";
    Org Read IS_MISSING => select_missing();
    Instance Read IS_MISSING_IN => select_missing();
    // Count as upkeep, because an account belongs to no organization. The caller records the events.
    Instance Upkeep BEGIN = "INSERT INTO second_factors (user_id, sealed, created_at, confirmed_at, last_step)
        VALUES ($1, $2, $3, NULL, 0) ON CONFLICT (user_id) DO UPDATE SET sealed = excluded.sealed,
          created_at = excluded.created_at, last_step = 0 WHERE second_factors.confirmed_at IS NULL";
    Instance Upkeep CONFIRM = "UPDATE second_factors SET confirmed_at = $2, last_step = $3
        WHERE user_id = $1 AND confirmed_at IS NULL";
    Instance Upkeep USE_STEP = "UPDATE second_factors SET last_step = $2 WHERE user_id = $1 AND last_step < $2";
    Instance Upkeep DELETE = "DELETE FROM second_factors WHERE user_id = $1";
    Instance Upkeep ADD_CODE = "INSERT INTO recovery_codes (user_id, hash) VALUES ($1, $2)";
    Instance Upkeep USE_CODE = "DELETE FROM recovery_codes WHERE user_id = $1 AND hash = $2";
    Instance Upkeep DELETE_CODES = "DELETE FROM recovery_codes WHERE user_id = $1";
    Instance Upkeep DELETE_UNCONFIRMED = "DELETE FROM second_factors WHERE confirmed_at IS NULL AND created_at <= $1";
}

#[derive(Debug, Clone, PartialEq)]
pub struct SecondFactor {
    pub user: UserId,
    /// The shared secret, encrypted by the vault.
    pub sealed: Vec<u8>,
    pub created_at: Timestamp,
    /// `None` until the user has proved with a code that the authenticator app works.
    pub confirmed_at: Option<Timestamp>,
    /// The last time step whose code was used.
    pub last_step: i64,
}
from_row!(SecondFactor { user, sealed, created_at, confirmed_at, last_step });

pub fn by_user(db: &mut impl StoreRead, user: UserId) -> Result<Option<SecondFactor>, StoreError> {
    db.fetch_optional(&BY_USER, &[text(user)])
}

pub fn count_recovery_codes(db: &mut impl StoreRead, user: UserId) -> Result<i64, StoreError> {
    db.fetch_count(&COUNT_CODES, &[text(user)])
}

/// Whether the transaction's organization requires a second factor.
pub fn is_required(db: &mut impl StoreRead) -> Result<bool, StoreError> {
    Ok(db.fetch_count(&IS_REQUIRED, &[])? != 0)
}

/// Whether the transaction's organization requires a second factor that the account lacks.
pub fn is_missing(db: &mut impl StoreRead, user: UserId) -> Result<bool, StoreError> {
    Ok(db.fetch_count(&IS_MISSING, &[text(user)])? != 0)
}

/// Like [`is_missing`], for requests that are not yet authorized in the organization.
pub fn is_missing_in(db: &mut impl StoreRead, org: OrgId, user: UserId) -> Result<bool, StoreError> {
    Ok(db.fetch_count(&IS_MISSING_IN, &[text(org), text(user)])? != 0)
}

/// Stores the secret of a new factor, which replaces one that was not confirmed. Fails if there is a confirmed one.
pub fn begin(tx: &mut Tx<'_>, user: UserId, sealed: &[u8]) -> Result<(), StoreError> {
    let now = tx.now();
    tx.execute_one(&BEGIN, &[text(user), sealed.into(), now.into()])
}

/// Puts the factor into effect. `step` is the time step of the code that confirmed it.
pub fn confirm(tx: &mut Tx<'_>, user: UserId, step: i64) -> Result<(), StoreError> {
    let now = tx.now();
    tx.execute_one(&CONFIRM, &[text(user), now.into(), step.into()])
}

/// Records that the code of a time step was used. Returns `false` if it, or a later one, was used before.
pub fn use_step(tx: &mut Tx<'_>, user: UserId, step: i64) -> Result<bool, StoreError> {
    Ok(tx.execute(&USE_STEP, &[text(user), step.into()])? == 1)
}

/// Deletes the factor and its recovery codes.
pub fn delete(tx: &mut Tx<'_>, user: UserId) -> Result<(), StoreError> {
    tx.execute(&DELETE_CODES, &[text(user)])?;
    tx.execute(&DELETE, &[text(user)]).map(drop)
}

/// Replaces the recovery codes of an account.
pub fn put_recovery_codes(tx: &mut Tx<'_>, user: UserId, hashes: &[Vec<u8>]) -> Result<(), StoreError> {
    tx.execute(&DELETE_CODES, &[text(user)])?;
    for hash in hashes {
        tx.execute_one(&ADD_CODE, &[text(user), hash.as_slice().into()])?;
    }
    Ok(())
}

/// Uses up a recovery code. Returns `false` if the account has no such code.
pub fn use_recovery_code(tx: &mut Tx<'_>, user: UserId, hash: &[u8]) -> Result<bool, StoreError> {
    Ok(tx.execute(&USE_CODE, &[text(user), hash.into()])? == 1)
}

/// Deletes factors that were begun before `oldest` and never confirmed.
pub fn delete_unconfirmed(tx: &mut Tx<'_>, oldest: Timestamp) -> Result<(), StoreError> {
    tx.execute(&DELETE_UNCONFIRMED, &[oldest.into()]).map(drop)
}
