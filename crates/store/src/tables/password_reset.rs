//! Password reset links. Each account has at most one. Only a hash of the link is stored.

use berth_core::id::UserId;
use berth_core::time::Timestamp;

use crate::error::StoreError;
use crate::sql::statements;
use crate::sql::value::text;
use crate::tx::{StoreRead, Tx};

statements! {
    Instance Read BY_HASH = "SELECT user_id FROM password_resets WHERE hash = $1 AND expires_at > $2";
    // Counts as upkeep, because an account belongs to no organization. The caller records the events.
    Instance Upkeep PUT = "INSERT INTO password_resets (user_id, hash, expires_at) VALUES ($1, $2, $3)
        ON CONFLICT (user_id) DO UPDATE SET hash = excluded.hash, expires_at = excluded.expires_at";
    Instance Upkeep DELETE = "DELETE FROM password_resets WHERE user_id = $1";
    Instance Upkeep DELETE_EXPIRED = "DELETE FROM password_resets WHERE expires_at <= $1";
}

/// Finds the user whose password this link resets.
pub fn user_by_hash(db: &mut impl StoreRead, hash: &[u8]) -> Result<Option<UserId>, StoreError> {
    let now = db.now();
    db.fetch_optional(&BY_HASH, &[hash.into(), now.into()])
}

/// Stores a link, which replaces the account's earlier one.
pub fn put(tx: &mut Tx<'_>, user: UserId, hash: &[u8], expires_at: Timestamp) -> Result<(), StoreError> {
    tx.execute_one(&PUT, &[text(user), hash.into(), expires_at.into()])
}

pub fn delete(tx: &mut Tx<'_>, user: UserId) -> Result<(), StoreError> {
    tx.execute(&DELETE, &[text(user)]).map(drop)
}

pub fn delete_expired(tx: &mut Tx<'_>) -> Result<(), StoreError> {
    let now = tx.now();
    tx.execute(&DELETE_EXPIRED, &[now.into()]).map(drop)
}
