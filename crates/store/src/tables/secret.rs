//! Secrets, their encrypted values, and which pipelines use them.

use berth_core::id::{DataKeyId, PipelineId, SecretId};
use berth_core::name::Slug;
use berth_core::pipeline::grammar::{SecretName, StageName};
use berth_core::secret::{ScopePath, Secret};

use crate::error::StoreError;
use crate::pagination::{ListPage, PageStart, fetch_page};
use crate::sql::value::{SqlValue, text};
use crate::sql::{FromValue, TableRow as _, ToValue, column_group, from_row, statements, table};
use crate::tx::{StoreRead, Tx};

/// Maximum number of pipelines listed as users of one secret.
pub const USERS_LISTED_MAX: i64 = 100;

table!(Org Secret in secrets {
    key: [id],
    update: [description, version, revision, updated_at],
    insert: [name, scope, created_at],
});
column_group!(SealedValue { key, bytes });

statements! {
    Org Read BY_ID => Secret::TABLE.select("WHERE org_id = $1 AND id = $2 {for_update}");
    Org Read BY_NAME => Secret::TABLE.select("WHERE org_id = $1 AND name = $2 AND scope = $3 {for_update}");
    Org Read ANYWHERE = "SELECT id FROM secrets WHERE org_id = $1 AND name = $2 LIMIT 1";
    Org Read LIST => Secret::TABLE.select("WHERE org_id = $1 AND id > $2 ORDER BY id LIMIT $3 OFFSET $4");
    Org Read COUNT = "SELECT CAST(COUNT(*) AS BIGINT) FROM secrets WHERE org_id = $1";
    Org Read OF_PIPELINE => Secret::TABLE.select(
        "WHERE org_id = $1 AND (scope = $2 OR (scope > $3 AND scope < $4)) ORDER BY id LIMIT $5");
    // A pipeline that has its own secret with this name does not use the organization's secret.
    Org Read USERS = "SELECT p.id, p.slug FROM secret_uses u
        JOIN pipelines p ON p.org_id = u.org_id AND p.id = u.pipeline_id
        WHERE u.org_id = $1 AND u.name = $2 AND (CAST($3 AS TEXT) IS NULL OR u.pipeline_id = $3)
          AND (CAST($3 AS TEXT) IS NOT NULL OR NOT EXISTS (SELECT 1 FROM secrets s
            WHERE s.org_id = u.org_id AND s.name = u.name AND s.scope = 'pipeline/' || u.pipeline_id))
        ORDER BY p.id LIMIT $4";
    Org Write PUT => Secret::TABLE.upsert("WHERE secrets.revision = excluded.revision - 1");
    Org Write DELETE = "DELETE FROM secrets WHERE org_id = $1 AND id = $2";
    Org Write PUT_VALUE = "INSERT INTO secret_values (org_id, secret_id, version, key_id, sealed, created_at)
        VALUES ($1, $2, $3, $4, $5, $6)";
    Org Read VALUE = "SELECT key_id, sealed FROM secret_values WHERE org_id = $1 AND secret_id = $2 AND version = $3";
    Org Upkeep FORGET_USES = "DELETE FROM secret_uses WHERE org_id = $1 AND pipeline_id = $2";
    Org Upkeep NOTE_USE = "INSERT INTO secret_uses (org_id, name, pipeline_id) VALUES ($1, $2, $3)";
}

/// A value that is encrypted with a data key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedValue {
    pub key: DataKeyId,
    pub bytes: Vec<u8>,
}

/// A pipeline whose definition uses a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretConsumer {
    pub pipeline: PipelineId,
    pub slug: Slug,
}
from_row!(SecretConsumer { pipeline, slug });

impl FromValue for ScopePath {
    fn from_value(value: SqlValue) -> Result<Self, String> {
        String::from_value(value)?.parse().map_err(|_| "not the scope of a secret".to_owned())
    }
}

impl ToValue for ScopePath {
    fn to_value(&self) -> Result<SqlValue, StoreError> {
        Ok(text(self))
    }
}

pub fn by_id(db: &mut impl StoreRead, id: SecretId) -> Result<Option<Secret>, StoreError> {
    db.fetch_optional(&BY_ID, &[text(id)])
}

pub fn by_name(
    db: &mut impl StoreRead,
    name: &SecretName,
    scope: &ScopePath,
) -> Result<Option<Secret>, StoreError> {
    db.fetch_optional(&BY_NAME, &[text(name), text(scope)])
}

/// Finds a secret by `key`, which is either a secret id or the name of an organization-level secret.
pub fn find(db: &mut impl StoreRead, key: &str) -> Result<Option<Secret>, StoreError> {
    if let Ok(id) = key.parse() {
        return by_id(db, id);
    }
    SecretName::parse(key).map_or(Ok(None), |name| by_name(db, &name, &ScopePath::Organization))
}

/// Whether a secret with this name exists in any scope.
pub fn exists_anywhere(db: &mut impl StoreRead, name: &SecretName) -> Result<bool, StoreError> {
    Ok(db.row(&ANYWHERE, &[text(name)])?.is_some())
}

/// Finds the secret that a step gets under this name. A secret of the stage takes precedence over one of the pipeline,
/// and that one over the organization's.
pub fn resolve_name(
    db: &mut impl StoreRead,
    name: &SecretName,
    pipeline: PipelineId,
    stage: Option<&StageName>,
) -> Result<Option<Secret>, StoreError> {
    for scope in ScopePath::visible_scopes(pipeline, stage) {
        if let Some(found) = by_name(db, name, &scope)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

pub fn list(db: &mut impl StoreRead, from: &PageStart, limit: i64) -> Result<ListPage<Secret>, StoreError> {
    let total = Some(count(db)?);
    Ok(fetch_page(db, &LIST, &[], from.by_id(), limit)?.with_total(total))
}

pub fn count(db: &mut impl StoreRead) -> Result<i64, StoreError> {
    db.fetch_count(&COUNT, &[])
}

/// Pipelines whose definitions use a secret.
pub fn list_users(db: &mut impl StoreRead, secret: &Secret) -> Result<Vec<SecretConsumer>, StoreError> {
    let only = secret.scope.pipeline().map(text).into();
    db.fetch_all(&USERS, &[text(&secret.name), only, USERS_LISTED_MAX.into()])
}

/// The secrets of a pipeline and of its stages.
pub fn list_of_pipeline(
    db: &mut impl StoreRead,
    pipeline: PipelineId,
    limit: i64,
) -> Result<Vec<Secret>, StoreError> {
    let own = ScopePath::Pipeline(pipeline);
    // All strings that start with `stage/<pipeline>/` are in this range, because `0` is the character after `/`.
    let (first, last) = (format!("stage/{pipeline}/"), format!("stage/{pipeline}0"));
    db.fetch_all(&OF_PIPELINE, &[text(own), first.into(), last.into(), limit.into()])
}

pub fn put(tx: &mut Tx<'_>, secret: &Secret) -> Result<(), StoreError> {
    tx.put(&PUT, secret)
}

/// Deletes a secret and all its values.
pub fn delete(tx: &mut Tx<'_>, id: SecretId) -> Result<(), StoreError> {
    tx.execute_one(&DELETE, &[text(id)])
}

pub fn put_value(tx: &mut Tx<'_>, id: SecretId, version: i64, value: &SealedValue) -> Result<(), StoreError> {
    let now = tx.now();
    tx.put(&PUT_VALUE, &(id, version, value.clone(), now))
}

pub fn load_value(
    db: &mut impl StoreRead,
    id: SecretId,
    version: i64,
) -> Result<Option<SealedValue>, StoreError> {
    db.fetch_optional(&VALUE, &[text(id), version.into()])
}

/// Replaces the list of secrets that a pipeline uses.
pub(crate) fn replace_uses<'a>(
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
