//! Registries: what somebody registered, and what came of it.

use berth_core::id::{PipelineId, RegistryId};
use berth_core::registry::{Registry, RegistryName, Seen, TypeRef};
use berth_core::time::Timestamp;

use crate::error::StoreError;
use crate::sql::statements;
use crate::tx::{Read, Tx};
use crate::value::{Row, text};

statements! {
    Org Read BY_ID = "SELECT id, name, url, ref, credential, status, commit_id, current_commit, failed_commit, synced_at,
        error, failures, due_at, version, created_at, updated_at, deleted_at FROM registries
        WHERE org_id = $1 AND id = $2 AND deleted_at IS NULL {for_update}";
    Org Read BY_NAME = "SELECT id, name, url, ref, credential, status, commit_id, current_commit, failed_commit, synced_at,
        error, failures, due_at, version, created_at, updated_at, deleted_at FROM registries
        WHERE org_id = $1 AND name = $2 AND deleted_at IS NULL {for_update}";
    Org Write PUT = "INSERT INTO registries (org_id, id, name, url, ref, credential, status, commit_id, current_commit,
          failed_commit, synced_at, error, failures, due_at, version, created_at, updated_at, deleted_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)
        ON CONFLICT (org_id, id) DO UPDATE SET url = excluded.url, ref = excluded.ref, credential = excluded.credential,
          status = excluded.status, commit_id = excluded.commit_id, current_commit = excluded.current_commit,
          failed_commit = excluded.failed_commit, synced_at = excluded.synced_at, error = excluded.error,
          failures = excluded.failures, due_at = excluded.due_at, version = excluded.version,
          updated_at = excluded.updated_at, deleted_at = excluded.deleted_at
        WHERE registries.version = excluded.version - 1";
    // A look that found nothing new is no change; what it did find has its own events.
    Org Upkeep SAW = "UPDATE registries SET status = $3, commit_id = $4, current_commit = $5, failed_commit = $6,
          synced_at = $7, error = $8, failures = $9, due_at = $10
        WHERE org_id = $1 AND id = $2 AND deleted_at IS NULL";
    Org Upkeep HASTEN = "UPDATE registries SET due_at = $3, failed_commit = NULL
        WHERE org_id = $1 AND id = $2 AND deleted_at IS NULL";
    Org Upkeep FORGET_USES = "DELETE FROM step_uses WHERE org_id = $1 AND pipeline_id = $2";
    Org Upkeep NOTE_USE = "INSERT INTO step_uses (org_id, registry, step, pipeline_id) VALUES ($1, $2, $3, $4)
        ON CONFLICT (org_id, registry, step, pipeline_id) DO NOTHING";
}

pub(crate) fn read(row: &Row) -> Result<Registry, StoreError> {
    let text = |column| Ok::<_, StoreError>(row.maybe(column, Row::text)?.map(str::to_owned));
    Ok(Registry {
        id: row.parse(0)?,
        name: row.name(1)?,
        url: row.name(2)?,
        reference: row.maybe(3, Row::name)?,
        credential: row.maybe(4, Row::name)?,
        seen: Seen {
            status: row.parse(5)?,
            commit: text(6)?,
            current: text(7)?,
            failed_commit: text(8)?,
            synced_at: row.maybe(9, Row::time)?,
            error: text(10)?,
            failures: row.int(11)?,
            due_at: row.maybe(12, Row::time)?,
        },
        version: row.int(13)?,
        created_at: row.time(14)?,
        updated_at: row.time(15)?,
        deleted_at: row.maybe(16, Row::time)?,
    })
}

pub fn by_id(db: &mut impl Read, id: RegistryId) -> Result<Option<Registry>, StoreError> {
    db.row(&BY_ID, &[text(id)])?.as_ref().map(read).transpose()
}

pub fn by_name(db: &mut impl Read, name: &RegistryName) -> Result<Option<Registry>, StoreError> {
    db.row(&BY_NAME, &[text(name)])?.as_ref().map(read).transpose()
}

/// By the id or the name in a URL; text that can be neither is simply not found.
pub fn find(db: &mut impl Read, key: &str) -> Result<Option<Registry>, StoreError> {
    if let Ok(id) = key.parse() {
        return by_id(db, id);
    }
    RegistryName::parse(key).map_or(Ok(None), |name| by_name(db, &name))
}

pub fn put(tx: &mut Tx<'_>, registry: &Registry) -> Result<(), StoreError> {
    let seen = &registry.seen;
    let params = [
        text(registry.id),
        text(&registry.name),
        text(&registry.url),
        registry.reference.as_ref().map(text).into(),
        registry.credential.as_ref().map(text).into(),
        text(seen.status),
        seen.commit.as_deref().into(),
        seen.current.as_deref().into(),
        seen.failed_commit.as_deref().into(),
        seen.synced_at.into(),
        seen.error.as_deref().into(),
        seen.failures.into(),
        seen.due_at.into(),
        registry.version.into(),
        registry.created_at.into(),
        registry.updated_at.into(),
        registry.deleted_at.into(),
    ];
    tx.execute_one(&PUT, &params)
}

/// What a look found; the record's version stays.
pub fn saw(tx: &mut Tx<'_>, id: RegistryId, seen: &Seen) -> Result<(), StoreError> {
    let params = [
        text(id),
        text(seen.status),
        seen.commit.as_deref().into(),
        seen.current.as_deref().into(),
        seen.failed_commit.as_deref().into(),
        seen.synced_at.into(),
        seen.error.as_deref().into(),
        seen.failures.into(),
        seen.due_at.into(),
    ];
    tx.execute_one(&SAW, &params)
}

/// It shall be looked at by then, and built again even if that failed before.
pub fn hasten(tx: &mut Tx<'_>, id: RegistryId, due_at: Timestamp) -> Result<(), StoreError> {
    tx.execute_one(&HASTEN, &[text(id), due_at.into()])
}

/// Notes which custom steps a pipeline names now.
pub(crate) fn note_uses<'a>(
    tx: &mut Tx<'_>,
    pipeline: PipelineId,
    types: impl IntoIterator<Item = &'a String>,
) -> Result<(), StoreError> {
    tx.execute(&FORGET_USES, &[text(pipeline)])?;
    for named in types {
        let (registry, step) = match TypeRef::parse(named) {
            None => continue,
            Some(TypeRef::Anywhere { step }) => (String::new(), step),
            Some(TypeRef::InRegistry { registry, step, .. }) => (registry.to_string(), step),
        };
        tx.execute(&NOTE_USE, &[registry.into(), step.into(), text(pipeline)])?;
    }
    Ok(())
}
