//! Encrypted keys: one key for the installation, and data keys that encrypt the secrets of each organization.

use berth_core::id::{DataKeyId, OrgId};

use crate::error::StoreError;
use crate::sql::value::text;
use crate::sql::{TableRow as _, column_group, sql, statements, table};
use crate::tx::{StoreRead, Tx};

/// Maximum number of keys that are re-encrypted at once when the root key is rotated.
pub const REWRAP_BATCH_MAX: i64 = 100;

table!(Org DataKey in data_keys {
    key: [id],
    update: [wrapped: (root_key_id, wrapped)],
});
column_group!(WrappedKey { root_key_id, bytes });

statements! {
    Instance Read INSTANCE_KEY = "SELECT root_key_id, wrapped FROM instance_keys WHERE id = $1";
    Instance Upkeep PUT_INSTANCE_KEY = "INSERT INTO instance_keys (id, root_key_id, wrapped) VALUES ($1, $2, $3)
        ON CONFLICT (id) DO UPDATE SET root_key_id = excluded.root_key_id, wrapped = excluded.wrapped";
    Org Read NEWEST => DataKey::TABLE.select("WHERE org_id = $1 ORDER BY id DESC LIMIT 1");
    Org Read BY_ID => DataKey::TABLE.select("WHERE org_id = $1 AND id = $2");
    Instance Read OF_OTHER_ROOTS => sql("SELECT org_id, ").columns(&DataKey::TABLE, "").then(
        " FROM data_keys WHERE root_key_id <> $1 ORDER BY org_id, id LIMIT $2 {for_update}");
    Org Write INSERT = "INSERT INTO data_keys (org_id, id, root_key_id, wrapped, created_at) VALUES ($1, $2, $3, $4, $5)";
    Org Write REWRAP => DataKey::TABLE.update("WHERE org_id = $1 AND id = $2");
    Instance Read ROOT_KEY = "SELECT root_key_id FROM instance_keys ORDER BY id LIMIT 1";
    Instance Read ALL_ROOT_KEYS = "SELECT root_key_id FROM instance_keys UNION SELECT root_key_id FROM data_keys
        ORDER BY root_key_id LIMIT 2";
}

/// A key that is encrypted with a root key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrappedKey {
    pub root_key_id: String,
    pub bytes: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataKey {
    pub id: DataKeyId,
    pub wrapped: WrappedKey,
}

const INSTANCE: &str = "instance";

pub fn load_instance_key(db: &mut impl StoreRead) -> Result<Option<WrappedKey>, StoreError> {
    db.fetch_optional(&INSTANCE_KEY, &[INSTANCE.into()])
}

pub fn put_instance_key(tx: &mut Tx<'_>, key: &WrappedKey) -> Result<(), StoreError> {
    tx.put(&PUT_INSTANCE_KEY, &(INSTANCE, &key.root_key_id, &key.bytes))
}

/// The newest data key, which encrypts new values.
pub fn find_newest(db: &mut impl StoreRead) -> Result<Option<DataKey>, StoreError> {
    db.fetch_optional(&NEWEST, &[])
}

pub fn by_id(db: &mut impl StoreRead, id: DataKeyId) -> Result<Option<DataKey>, StoreError> {
    db.fetch_optional(&BY_ID, &[text(id)])
}

pub fn insert(tx: &mut Tx<'_>, key: &DataKey) -> Result<(), StoreError> {
    let now = tx.now();
    tx.put(&INSERT, &(key.id, &key.wrapped.root_key_id, &key.wrapped.bytes, now))
}

/// A batch of data keys that are encrypted with a root key other than the given one.
pub fn list_of_other_roots(
    db: &mut impl StoreRead,
    root_key_id: &str,
) -> Result<Vec<(OrgId, DataKey)>, StoreError> {
    db.fetch_all(&OF_OTHER_ROOTS, &[root_key_id.into(), REWRAP_BATCH_MAX.into()])
}

pub fn rewrap(tx: &mut Tx<'_>, id: DataKeyId, wrapped: &WrappedKey) -> Result<(), StoreError> {
    tx.put(&REWRAP, &(id, &wrapped.root_key_id, &wrapped.bytes))
}

/// The id of the root key that encrypts the installation's key.
pub fn find_root_key_id(db: &mut impl StoreRead) -> Result<Option<String>, StoreError> {
    db.fetch_optional(&ROOT_KEY, &[])
}

/// Ids of all root keys that are in use: one, or two during a rotation.
pub fn list_root_key_ids(db: &mut impl StoreRead) -> Result<Vec<String>, StoreError> {
    db.fetch_all(&ALL_ROOT_KEYS, &[])
}
