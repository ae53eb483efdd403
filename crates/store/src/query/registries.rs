//! Lists of registries and builds, which are due, what they offer, and who uses it.

use std::collections::BTreeMap;

use berth_core::id::{OrgId, PipelineId, RegistryId};
use berth_core::name::Slug;
use berth_core::registry::{Build, Offers, Registry, RegistryName, Version, Wanted, resolve};
use berth_core::time::Timestamp;

use super::{Batch, COUNTED_MAX, From, Slice, count, counted, page};
use crate::error::StoreError;
use crate::records::registry::read;
use crate::records::registry_build;
use crate::sql::statements;
use crate::tx::Read;
use crate::value::text;

/// Registries of one organization: a step that is named without one is looked for in all of them.
pub const REGISTRIES_MAX: i64 = 50;
/// Users of the steps of one registry that are named.
pub const STEP_USES_LISTED_MAX: i64 = 1_000;

statements! {
    Org Read ALL = "SELECT id, name, url, ref, credential, status, commit_id, current_commit, failed_commit, synced_at,
        error, failures, due_at, version, created_at, updated_at, deleted_at FROM registries
        WHERE org_id = $1 AND deleted_at IS NULL ORDER BY id LIMIT $2";
    Org Read LIST = "SELECT id, name, url, ref, credential, status, commit_id, current_commit, failed_commit, synced_at,
        error, failures, due_at, version, created_at, updated_at, deleted_at FROM registries
        WHERE org_id = $1 AND deleted_at IS NULL AND id > $2 ORDER BY id LIMIT $3 OFFSET $4";
    Org Read COUNT = "SELECT CAST(COUNT(*) AS BIGINT) FROM registries WHERE org_id = $1 AND deleted_at IS NULL";
    Instance Read DUE = "SELECT org_id, id FROM (SELECT org_id, id, due_at,
            ROW_NUMBER() OVER (PARTITION BY org_id ORDER BY due_at, id) AS place
          FROM registries WHERE due_at IS NOT NULL AND due_at <= $1) AS ranked
        WHERE place <= $2 ORDER BY place, due_at, id LIMIT $3";
    // Hashes are hexadecimal: `g` comes after all of them.
    Org Read BY_PREFIX = "SELECT registry_id, commit_id, number, digest, start, input, steps, built_at
        FROM registry_versions
        WHERE org_id = $1 AND registry_id = $2 AND commit_id >= $3 AND commit_id < $4 ORDER BY commit_id LIMIT 2";
    Org Read BY_REF = "SELECT v.registry_id, v.commit_id, v.number, v.digest, v.start, v.input, v.steps, v.built_at
        FROM registry_refs r JOIN registry_versions v
          ON v.org_id = r.org_id AND v.registry_id = r.registry_id AND v.commit_id = r.commit_id
        WHERE r.org_id = $1 AND r.registry_id = $2 AND r.name = $3";
    Org Read BUILDS = "SELECT registry_id, number, status, commit_id, started_at, finished_at, error FROM registry_builds
        WHERE org_id = $1 AND registry_id = $2 AND number < $3 ORDER BY number DESC LIMIT $4 OFFSET $5";
    Org Read COUNT_BUILDS = "SELECT CAST(COUNT(*) AS BIGINT) FROM (SELECT 1 FROM registry_builds
        WHERE org_id = $1 AND registry_id = $2 LIMIT $3) AS counted";
    Org Read UNDER_WAY = "SELECT registry_id, number, status, commit_id, started_at, finished_at, error
        FROM registry_builds WHERE org_id = $1 AND registry_id = $2 AND status = 'building' ORDER BY number LIMIT $3";
    Org Read USES = "SELECT u.registry, u.step, p.id, p.slug FROM step_uses u
        JOIN pipelines p ON p.org_id = u.org_id AND p.id = u.pipeline_id
        WHERE u.org_id = $1 AND u.registry IN ($2, '') ORDER BY p.id, u.step LIMIT $3";
    Instance Read INTERRUPTED = "SELECT org_id, id FROM registries
        WHERE status = 'building' AND deleted_at IS NULL ORDER BY org_id, id LIMIT $1";
}

pub fn list(db: &mut impl Read, from: &From, limit: i64) -> Result<Slice<Registry>, StoreError> {
    page(db, &LIST, &COUNT, from, limit, read)
}

pub fn total(db: &mut impl Read) -> Result<i64, StoreError> {
    count(db, &COUNT)
}

/// Those that are due, of each organization; those that have waited longest come first.
pub fn due(db: &mut impl Read, now: Timestamp, batch: Batch) -> Result<Vec<(OrgId, RegistryId)>, StoreError> {
    let rows = db.rows(&DUE, &[now.into(), batch.share.into(), batch.total.into()])?;
    rows.iter().map(|row| Ok((row.parse(0)?, row.parse(1)?))).collect()
}

/// Those that were being built when the server stopped, of all organizations.
pub fn interrupted(db: &mut impl Read, limit: i64) -> Result<Vec<(OrgId, RegistryId)>, StoreError> {
    let rows = db.rows(&INTERRUPTED, &[limit.into()])?;
    rows.iter().map(|row| Ok((row.parse(0)?, row.parse(1)?))).collect()
}

/// Newest first.
pub fn builds(
    db: &mut impl Read,
    registry: RegistryId,
    from: &From,
    limit: i64,
) -> Result<Slice<Build>, StoreError> {
    let (before, offset) = match from {
        From::After(number) => (number.parse().unwrap_or(0), 0),
        From::Offset(offset) => (i64::MAX, *offset),
    };
    let rows = db.rows(&BUILDS, &[text(registry), before.into(), (limit + 1).into(), offset.into()])?;
    let total = db.row(&COUNT_BUILDS, &[text(registry), (COUNTED_MAX + 1).into()])?;
    let total = total.map(|row| row.int(0)).transpose()?.and_then(counted);
    Ok(Slice::cut(rows.iter().map(registry_build::read).collect::<Result<_, _>>()?, limit, total))
}

pub fn under_way(db: &mut impl Read, registry: RegistryId, limit: i64) -> Result<Vec<Build>, StoreError> {
    db.rows(&UNDER_WAY, &[text(registry), limit.into()])?.iter().map(registry_build::read).collect()
}

/// What definitions get for the types they name, by the type as it is written.
pub fn offers<'a>(db: &mut impl Read, types: impl Iterator<Item = &'a str>) -> Result<Offers, StoreError> {
    let (mut found, mut registries) = (Offers::new(), None);
    // A type that names no registry is looked for in all of them, and each is read once.
    let mut current: BTreeMap<RegistryId, Vec<Version>> = BTreeMap::new();
    for written in types {
        if found.contains_key(written) {
            continue;
        }
        let known = match &registries {
            Some(known) => known,
            None => registries.insert(all(db)?),
        };
        let offer = resolve(written, known, |registry, wanted| match wanted {
            Wanted::Commit(_) => match current.get(&registry.id) {
                Some(read) => Ok(read.clone()),
                None => {
                    let read = versions(db, registry.id, wanted)?;
                    Ok(current.entry(registry.id).or_insert(read).clone())
                }
            },
            other => versions(db, registry.id, other),
        })?;
        found.insert(written.to_owned(), offer);
    }
    Ok(found)
}

fn all(db: &mut impl Read) -> Result<Vec<Registry>, StoreError> {
    db.rows(&ALL, &[REGISTRIES_MAX.into()])?.iter().map(read).collect()
}

/// Two at most: more than one is none.
fn versions(
    db: &mut impl Read,
    registry: RegistryId,
    wanted: Wanted<'_>,
) -> Result<Vec<Version>, StoreError> {
    let rows = match wanted {
        Wanted::Commit(commit) => {
            return Ok(registry_build::version(db, registry, commit)?.into_iter().collect());
        }
        Wanted::Prefix(prefix) => {
            db.rows(&BY_PREFIX, &[text(registry), prefix.into(), format!("{prefix}g").into()])?
        }
        Wanted::Named(name) => db.rows(&BY_REF, &[text(registry), name.into()])?,
    };
    rows.iter().map(registry_build::read_version).collect()
}

/// A pipeline whose definition names a custom step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepUse {
    pub step: String,
    /// By `CUSTOM:<TYPE>`, which may mean a step of another registry.
    pub is_anywhere: bool,
    pub pipeline: PipelineId,
    pub slug: Slug,
}

/// Who names a step of this registry, or a step without saying of which.
pub fn uses(db: &mut impl Read, registry: &RegistryName) -> Result<Vec<StepUse>, StoreError> {
    let rows = db.rows(&USES, &[text(registry), STEP_USES_LISTED_MAX.into()])?;
    rows.iter()
        .map(|row| {
            Ok(StepUse {
                is_anywhere: row.text(0)?.is_empty(),
                step: row.text(1)?.to_owned(),
                pipeline: row.parse(2)?,
                slug: row.name(3)?,
            })
        })
        .collect()
}
