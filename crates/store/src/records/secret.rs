//! Secrets, and their encrypted values.

use berth_core::id::{DataKeyId, PipelineId, SecretId};
use berth_core::pipeline::grammar::{SecretName, StageName};
use berth_core::secret::{Scope, Secret};

use crate::error::StoreError;
use crate::sql::statements;
use crate::tx::{Read, Tx};
use crate::value::{Row, text};

statements! {
    Org Read BY_ID = "SELECT id, name, scope, description, version, revision, created_at, updated_at FROM secrets
        WHERE org_id = $1 AND id = $2 {for_update}";
    Org Read BY_NAME = "SELECT id, name, scope, description, version, revision, created_at, updated_at FROM secrets
        WHERE org_id = $1 AND name = $2 AND scope = $3 {for_update}";
    Org Read ANYWHERE = "SELECT id FROM secrets WHERE org_id = $1 AND name = $2 LIMIT 1";
    Org Write PUT = "INSERT INTO secrets
        (org_id, id, name, scope, description, version, revision, created_at, updated_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
        ON CONFLICT (org_id, id) DO UPDATE SET description = excluded.description, version = excluded.version,
          revision = excluded.revision, updated_at = excluded.updated_at
        WHERE secrets.revision = excluded.revision - 1";
    Org Write DELETE = "DELETE FROM secrets WHERE org_id = $1 AND id = $2";
    Org Write PUT_VALUE = "INSERT INTO secret_values (org_id, secret_id, version, key_id, sealed, created_at)
        VALUES ($1, $2, $3, $4, $5, $6)";
    Org Read VALUE = "SELECT key_id, sealed FROM secret_values WHERE org_id = $1 AND secret_id = $2 AND version = $3";
    Org Upkeep FORGET_USES = "DELETE FROM secret_uses WHERE org_id = $1 AND pipeline_id = $2";
    Org Upkeep NOTE_USE = "INSERT INTO secret_uses (org_id, name, pipeline_id) VALUES ($1, $2, $3)";
}

/// An encrypted value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed {
    pub key: DataKeyId,
    pub bytes: Vec<u8>,
}

pub(crate) fn read(row: &Row) -> Result<Secret, StoreError> {
    Ok(Secret {
        id: row.parse(0)?,
        name: row.name(1)?,
        scope: row.parse(2)?,
        description: row.maybe(3, Row::name)?,
        version: row.int(4)?,
        revision: row.int(5)?,
        created_at: row.time(6)?,
        updated_at: row.time(7)?,
    })
}

pub fn by_id(db: &mut impl Read, id: SecretId) -> Result<Option<Secret>, StoreError> {
    db.row(&BY_ID, &[text(id)])?.as_ref().map(read).transpose()
}

pub fn by_name(db: &mut impl Read, name: &SecretName, scope: &Scope) -> Result<Option<Secret>, StoreError> {
    db.row(&BY_NAME, &[text(name), text(scope)])?.as_ref().map(read).transpose()
}

/// By the id in a URL, or by the name of one that the whole organization has.
pub fn find(db: &mut impl Read, key: &str) -> Result<Option<Secret>, StoreError> {
    if let Ok(id) = key.parse() {
        return by_id(db, id);
    }
    SecretName::parse(key).map_or(Ok(None), |name| by_name(db, &name, &Scope::Organization))
}

pub fn exists_anywhere(db: &mut impl Read, name: &SecretName) -> Result<bool, StoreError> {
    Ok(db.row(&ANYWHERE, &[text(name)])?.is_some())
}

/// The secret a step means by a name: of its stage, else of its pipeline, else of the organization.
pub fn nearest(
    db: &mut impl Read,
    name: &SecretName,
    pipeline: PipelineId,
    stage: Option<&StageName>,
) -> Result<Option<Secret>, StoreError> {
    for scope in Scope::seen_from(pipeline, stage) {
        if let Some(found) = by_name(db, name, &scope)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

pub fn put(tx: &mut Tx<'_>, secret: &Secret) -> Result<(), StoreError> {
    let params = [
        text(secret.id),
        text(&secret.name),
        text(&secret.scope),
        secret.description.as_ref().map(text).into(),
        secret.version.into(),
        secret.revision.into(),
        secret.created_at.into(),
        secret.updated_at.into(),
    ];
    tx.execute_one(&PUT, &params)
}

/// Removes the secret and all its values.
pub fn delete(tx: &mut Tx<'_>, id: SecretId) -> Result<(), StoreError> {
    tx.execute_one(&DELETE, &[text(id)])
}

pub fn put_value(tx: &mut Tx<'_>, id: SecretId, version: i64, value: &Sealed) -> Result<(), StoreError> {
    let now = tx.now();
    let params = [text(id), version.into(), text(value.key), value.bytes.as_slice().into(), now.into()];
    tx.execute_one(&PUT_VALUE, &params)
}

pub fn value(db: &mut impl Read, id: SecretId, version: i64) -> Result<Option<Sealed>, StoreError> {
    let Some(row) = db.row(&VALUE, &[text(id), version.into()])? else { return Ok(None) };
    Ok(Some(Sealed { key: row.parse(0)?, bytes: row.bytes(1)?.to_vec() }))
}

/// Notes which secrets a pipeline names now.
pub(crate) fn note_uses<'a>(
    tx: &mut Tx<'_>,
    pipeline: PipelineId,
    names: impl IntoIterator<Item = &'a SecretName>,
) -> Result<(), StoreError> {
    tx.execute(&FORGET_USES, &[text(pipeline)])?;
    for name in names {
        tx.execute(&NOTE_USE, &[text(name), text(pipeline)])?;
    }
    Ok(())
}
