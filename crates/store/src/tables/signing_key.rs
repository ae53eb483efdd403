//! Keys that sign the ID tokens of steps. All servers of an installation share them.

use berth_core::time::Timestamp;

use crate::error::StoreError;
use crate::sql::{from_row, statements};
use crate::tx::{StoreRead, Tx};

/// Maximum number of keys that are published at a time.
pub const SIGNING_KEYS_MAX: i64 = 16;

// No events: a key belongs to no organization, and rotating keys is routine.
statements! {
    Instance Read ALL = "SELECT id, public_key, sealed, created_at, signs_from FROM signing_keys
        ORDER BY signs_from DESC, id DESC LIMIT $1";
    // Locks the keys, so that two servers do not both add a successor.
    Instance Read ALL_LOCKED = "SELECT id, public_key, sealed, created_at, signs_from FROM signing_keys
        ORDER BY signs_from DESC, id DESC LIMIT $1 {for_update}";
    Instance Upkeep INSERT = "INSERT INTO signing_keys (id, public_key, sealed, created_at, signs_from)
        VALUES ($1, $2, $3, $4, $5)";
    Instance Upkeep DELETE = "DELETE FROM signing_keys WHERE id = $1";
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredSigningKey {
    /// The `kid` of the tokens that it signs.
    pub id: String,
    /// The public key as a JSON Web Key.
    pub public_key: String,
    /// The private key, encrypted by the vault.
    pub sealed: Vec<u8>,
    pub created_at: Timestamp,
    /// When it starts to sign. It is published before.
    pub signs_from: Timestamp,
}
from_row!(StoredSigningKey { id, public_key, sealed, created_at, signs_from });

/// All keys, the latest one first.
pub fn list(db: &mut impl StoreRead) -> Result<Vec<StoredSigningKey>, StoreError> {
    db.fetch_all(&ALL, &[SIGNING_KEYS_MAX.into()])
}

/// Like [`list`], for a transaction that adds or removes keys.
pub fn list_for_update(tx: &mut Tx<'_>) -> Result<Vec<StoredSigningKey>, StoreError> {
    tx.fetch_all(&ALL_LOCKED, &[SIGNING_KEYS_MAX.into()])
}

pub fn insert(tx: &mut Tx<'_>, key: &StoredSigningKey) -> Result<(), StoreError> {
    tx.put(&INSERT, &(&key.id, &key.public_key, &key.sealed, key.created_at, key.signs_from))
}

pub fn delete(tx: &mut Tx<'_>, id: &str) -> Result<(), StoreError> {
    tx.execute(&DELETE, &[id.into()]).map(drop)
}
