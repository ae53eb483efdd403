//! Wrapped keys: one of the installation, and those that encrypt an organization's secrets.

use berth_core::id::{DataKeyId, OrgId};

use crate::error::StoreError;
use crate::sql::statements;
use crate::tx::{Read, Tx};
use crate::value::{Row, text};

/// Keys one step of a rotation takes.
pub const REWRAP_BATCH_MAX: i64 = 100;

statements! {
    Instance Read INSTANCE_KEY = "SELECT root_key_id, wrapped FROM instance_keys WHERE id = $1";
    Instance Upkeep PUT_INSTANCE_KEY = "INSERT INTO instance_keys (id, root_key_id, wrapped) VALUES ($1, $2, $3)
        ON CONFLICT (id) DO UPDATE SET root_key_id = excluded.root_key_id, wrapped = excluded.wrapped";
    Org Read NEWEST = "SELECT id, root_key_id, wrapped FROM data_keys WHERE org_id = $1 ORDER BY id DESC LIMIT 1";
    Org Read BY_ID = "SELECT id, root_key_id, wrapped FROM data_keys WHERE org_id = $1 AND id = $2";
    Instance Read OF_OTHER_ROOTS = "SELECT org_id, id, root_key_id, wrapped FROM data_keys
        WHERE root_key_id <> $1 ORDER BY org_id, id LIMIT $2 {for_update}";
    Org Write INSERT = "INSERT INTO data_keys (org_id, id, root_key_id, wrapped, created_at) VALUES ($1, $2, $3, $4, $5)";
    Org Write REWRAP = "UPDATE data_keys SET root_key_id = $3, wrapped = $4 WHERE org_id = $1 AND id = $2";
}

/// A key nobody can use without the root key that wraps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrapped {
    pub root_key_id: String,
    pub bytes: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataKey {
    pub id: DataKeyId,
    pub wrapped: Wrapped,
}

fn read(row: &Row, first: usize) -> Result<DataKey, StoreError> {
    let wrapped =
        Wrapped { root_key_id: row.text(first + 1)?.to_owned(), bytes: row.bytes(first + 2)?.to_vec() };
    Ok(DataKey { id: row.parse(first)?, wrapped })
}

const INSTANCE: &str = "instance";

pub fn of_instance(db: &mut impl Read) -> Result<Option<Wrapped>, StoreError> {
    let Some(row) = db.row(&INSTANCE_KEY, &[INSTANCE.into()])? else { return Ok(None) };
    Ok(Some(Wrapped { root_key_id: row.text(0)?.to_owned(), bytes: row.bytes(1)?.to_vec() }))
}

pub fn put_of_instance(tx: &mut Tx<'_>, key: &Wrapped) -> Result<(), StoreError> {
    let params = [INSTANCE.into(), key.root_key_id.as_str().into(), key.bytes.as_slice().into()];
    tx.execute_one(&PUT_INSTANCE_KEY, &params)
}

/// The key new values are encrypted with.
pub fn newest(db: &mut impl Read) -> Result<Option<DataKey>, StoreError> {
    db.row(&NEWEST, &[])?.map(|row| read(&row, 0)).transpose()
}

pub fn by_id(db: &mut impl Read, id: DataKeyId) -> Result<Option<DataKey>, StoreError> {
    db.row(&BY_ID, &[text(id)])?.map(|row| read(&row, 0)).transpose()
}

pub fn insert(tx: &mut Tx<'_>, key: &DataKey) -> Result<(), StoreError> {
    let (root, now) = (key.wrapped.root_key_id.as_str(), tx.now());
    tx.execute_one(&INSERT, &[text(key.id), root.into(), key.wrapped.bytes.as_slice().into(), now.into()])
}

/// Some of the keys that another root key than this one wraps.
pub fn of_other_roots(db: &mut impl Read, root_key_id: &str) -> Result<Vec<(OrgId, DataKey)>, StoreError> {
    let rows = db.rows(&OF_OTHER_ROOTS, &[root_key_id.into(), REWRAP_BATCH_MAX.into()])?;
    rows.iter().map(|row| Ok((row.parse(0)?, read(row, 1)?))).collect()
}

pub fn rewrap(tx: &mut Tx<'_>, id: DataKeyId, wrapped: &Wrapped) -> Result<(), StoreError> {
    let params = [text(id), wrapped.root_key_id.as_str().into(), wrapped.bytes.as_slice().into()];
    tx.execute_one(&REWRAP, &params)
}
