//! Step registries, and which pipelines use their steps.

use std::collections::BTreeMap;

use berth_core::id::{OrgId, PipelineId, RegistryId};
use berth_core::name::Slug;
use berth_core::registry::{
    AvailableSteps, Registry, RegistryName, RegistryStatus, RegistrySyncState, RegistryVersion, TypeRef,
    VersionQuery, resolve,
};
use berth_core::time::Timestamp;

use super::registry_build::list_versions;
use crate::error::StoreError;
use crate::pagination::{FairBatch, ListPage, PageStart, fetch_page};
use crate::sql::value::text;
use crate::sql::{
    FromRow, RowReader, TableRow as _, ToParams as _, column_group, statements, table, word_columns,
};
use crate::tx::{StoreRead, Tx};

/// Maximum number of registries in an organization. It is limited because a step type that names no registry is looked
/// up in all of them.
pub const REGISTRIES_MAX: i64 = 50;
/// Maximum number of pipelines listed as users of one registry.
pub const STEP_USES_LISTED_MAX: i64 = 1_000;

table!(Org Registry in registries {
    key: [id],
    update: [
        seen: (status, commit_id, current_commit, failed_commit, synced_at, error, failures, due_at),
        url, reference: ref, credential, version, updated_at, deleted_at,
    ],
    insert: [name, created_at],
});
column_group!(RegistrySyncState {
    status,
    commit,
    current,
    failed_commit,
    synced_at,
    error,
    failures,
    due_at
});
word_columns!(RegistryStatus: RegistryStatus::ALL);

statements! {
    Org Read BY_ID => Registry::TABLE.select("WHERE org_id = $1 AND id = $2 AND deleted_at IS NULL {for_update}");
    Org Read BY_NAME => Registry::TABLE.select("WHERE org_id = $1 AND name = $2 AND deleted_at IS NULL {for_update}");
    Org Read ALL => Registry::TABLE.select("WHERE org_id = $1 AND deleted_at IS NULL ORDER BY id LIMIT $2");
    Org Read LIST => Registry::TABLE.select(
        "WHERE org_id = $1 AND deleted_at IS NULL AND id > $2 ORDER BY id LIMIT $3 OFFSET $4");
    Org Read COUNT = "SELECT CAST(COUNT(*) AS BIGINT) FROM registries WHERE org_id = $1 AND deleted_at IS NULL";
    Org Write PUT => Registry::TABLE.upsert("WHERE registries.version = excluded.version - 1");
    // Needs no event: if the poll finds a change, an event is recorded for that change.
    Org Upkeep SAW = "UPDATE registries SET status = $3, commit_id = $4, current_commit = $5, failed_commit = $6,
          synced_at = $7, error = $8, failures = $9, due_at = $10
        WHERE org_id = $1 AND id = $2 AND deleted_at IS NULL";
    Org Upkeep HASTEN = "UPDATE registries SET due_at = $3, failed_commit = NULL
        WHERE org_id = $1 AND id = $2 AND deleted_at IS NULL";
    Instance Read DUE = "SELECT org_id, id FROM (SELECT org_id, id, due_at,
            ROW_NUMBER() OVER (PARTITION BY org_id ORDER BY due_at, id) AS place
          FROM registries WHERE due_at IS NOT NULL AND due_at <= $1) AS ranked
        WHERE place <= $2 ORDER BY place, due_at, id LIMIT $3";
    Instance Read INTERRUPTED = "SELECT org_id, id FROM registries
        WHERE status = 'building' AND deleted_at IS NULL ORDER BY org_id, id LIMIT $1";
    Org Upkeep FORGET_USES = "DELETE FROM step_uses WHERE org_id = $1 AND pipeline_id = $2";
    Org Upkeep NOTE_USE = "INSERT INTO step_uses (org_id, registry, step, pipeline_id) VALUES ($1, $2, $3, $4)
        ON CONFLICT (org_id, registry, step, pipeline_id) DO NOTHING";
    Org Read USES = "SELECT u.registry, u.step, p.id, p.slug FROM step_uses u
        JOIN pipelines p ON p.org_id = u.org_id AND p.id = u.pipeline_id
        WHERE u.org_id = $1 AND u.registry IN ($2, '') ORDER BY p.id, u.step LIMIT $3";
}

/// A pipeline whose definition uses a custom step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepUse {
    pub step: String,
    /// The definition contains `CUSTOM:<TYPE>` without a registry name, so the step may come from any registry.
    pub is_anywhere: bool,
    pub pipeline: PipelineId,
    pub slug: Slug,
}

impl FromRow for StepUse {
    fn from_row(row: &mut RowReader) -> Result<Self, StoreError> {
        let (registry, step, pipeline, slug): (String, _, _, _) = row.take()?;
        Ok(Self { step, is_anywhere: registry.is_empty(), pipeline, slug })
    }
}

pub fn by_id(db: &mut impl StoreRead, id: RegistryId) -> Result<Option<Registry>, StoreError> {
    db.fetch_optional(&BY_ID, &[text(id)])
}

pub fn by_name(db: &mut impl StoreRead, name: &RegistryName) -> Result<Option<Registry>, StoreError> {
    db.fetch_optional(&BY_NAME, &[text(name)])
}

/// Finds a registry by the id or name from a URL.
pub fn find(db: &mut impl StoreRead, key: &str) -> Result<Option<Registry>, StoreError> {
    if let Ok(id) = key.parse() {
        return by_id(db, id);
    }
    RegistryName::parse(key).map_or(Ok(None), |name| by_name(db, &name))
}

pub fn list(db: &mut impl StoreRead, from: &PageStart, limit: i64) -> Result<ListPage<Registry>, StoreError> {
    let total = Some(count(db)?);
    Ok(fetch_page(db, &LIST, &[], from.by_id(), limit)?.with_total(total))
}

pub fn count(db: &mut impl StoreRead) -> Result<i64, StoreError> {
    db.fetch_count(&COUNT, &[])
}

/// Registries that are due for a poll, longest overdue first. Each organization gets a share of the batch.
pub fn list_due(
    db: &mut impl StoreRead,
    now: Timestamp,
    batch: FairBatch,
) -> Result<Vec<(OrgId, RegistryId)>, StoreError> {
    db.fetch_all(&DUE, &[now.into(), batch.share.into(), batch.total.into()])
}

/// Registries of all organizations whose build was interrupted when a server stopped.
pub fn list_interrupted(db: &mut impl StoreRead, limit: i64) -> Result<Vec<(OrgId, RegistryId)>, StoreError> {
    db.fetch_all(&INTERRUPTED, &[limit.into()])
}

pub fn put(tx: &mut Tx<'_>, registry: &Registry) -> Result<(), StoreError> {
    tx.put(&PUT, registry)
}

/// Stores the result of a poll. Does not increment the version of the registry.
pub fn put_poll_result(tx: &mut Tx<'_>, id: RegistryId, seen: &RegistrySyncState) -> Result<(), StoreError> {
    let mut params = vec![text(id)];
    seen.to_params(&mut params)?;
    tx.execute_one(&SAW, &params)
}

/// Schedules a poll for this time. That poll builds the commit even if its last build failed.
pub fn schedule_poll(tx: &mut Tx<'_>, id: RegistryId, due_at: Timestamp) -> Result<(), StoreError> {
    tx.execute_one(&HASTEN, &[text(id), due_at.into()])
}

/// Finds the steps in the registries to which these step types refer. The keys of the result are the types as written
/// in the definition.
pub fn resolve_types<'a>(
    db: &mut impl StoreRead,
    types: impl Iterator<Item = &'a str>,
) -> Result<AvailableSteps, StoreError> {
    let (mut found, mut registries) = (AvailableSteps::new(), None);
    // Caches the current version of each registry, because a type that names no registry is looked up in all of them.
    let mut current: BTreeMap<RegistryId, Vec<RegistryVersion>> = BTreeMap::new();
    for written in types {
        if found.contains_key(written) {
            continue;
        }
        let known = match &registries {
            Some(known) => known,
            None => registries.insert(db.fetch_all(&ALL, &[REGISTRIES_MAX.into()])?),
        };
        let offer = resolve(written, known, |registry, wanted| match wanted {
            VersionQuery::Commit(_) => match current.get(&registry.id) {
                Some(read) => Ok(read.clone()),
                None => {
                    let read = list_versions(db, registry.id, wanted)?;
                    Ok(current.entry(registry.id).or_insert(read).clone())
                }
            },
            other => list_versions(db, registry.id, other),
        })?;
        found.insert(written.to_owned(), offer);
    }
    Ok(found)
}

/// Pipelines that use a step of this registry, or a custom step whose registry they do not name.
pub fn list_uses(db: &mut impl StoreRead, registry: &RegistryName) -> Result<Vec<StepUse>, StoreError> {
    db.fetch_all(&USES, &[text(registry), STEP_USES_LISTED_MAX.into()])
}

/// Replaces the list of custom steps that a pipeline uses.
pub(crate) fn replace_uses<'a>(
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
