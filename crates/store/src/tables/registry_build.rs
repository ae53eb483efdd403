//! Builds of registries, and the versions that these builds produced.

use berth_core::id::RegistryId;
use berth_core::registry::{
    BuildStatus, InputMode, RegistryBuild, RegistryVersion, StepMetadata, VersionQuery,
};

use super::PAGE_ROWS;
use crate::error::StoreError;
use crate::pagination::{ListPage, PageStart, fetch_bounded_count, fetch_page};
use crate::sql::value::{SqlValue, text};
use crate::sql::{
    FromValue, TableRow as _, ToValue, from_row, json_columns, sql, statements, table, word_columns,
};
use crate::tx::{StoreRead, Tx};

/// Maximum number of refs listed for one version.
const REFS_LISTED_MAX: i64 = 100;

table!(Org RegistryBuild in registry_builds {
    key: [registry: registry_id, number],
    update: [status, finished_at, error],
    insert: [commit: commit_id, started_at],
});
table!(Org RegistryVersion in registry_versions {
    key: [registry: registry_id, commit: commit_id],
    insert: [number, digest, start, input, steps, built_at],
});
word_columns!(BuildStatus: BuildStatus::ALL);
json_columns!(Vec<StepMetadata>);

statements! {
    Org Upkeep COUNT = "UPDATE registries SET builds = builds + 1 WHERE org_id = $1 AND id = $2";
    Org Read COUNTED = "SELECT builds FROM registries WHERE org_id = $1 AND id = $2";
    Org Read BY_NUMBER => RegistryBuild::TABLE.select("WHERE org_id = $1 AND registry_id = $2 AND number = $3");
    Org Read LIST => RegistryBuild::TABLE.select(
        "WHERE org_id = $1 AND registry_id = $2 AND number < $3 ORDER BY number DESC LIMIT $4 OFFSET $5");
    Org Read COUNT_LIST = "SELECT CAST(COUNT(*) AS BIGINT) FROM (SELECT 1 FROM registry_builds
        WHERE org_id = $1 AND registry_id = $2 LIMIT $3) AS counted";
    Org Read UNDER_WAY => RegistryBuild::TABLE.select(
        "WHERE org_id = $1 AND registry_id = $2 AND status = 'building' ORDER BY number LIMIT $3");
    // Needs no event, because the result of a build is recorded as an event of the registry.
    Org Upkeep PUT => RegistryBuild::TABLE.upsert("");
    Org Upkeep FORGET = "DELETE FROM registry_builds WHERE org_id = $1 AND registry_id = $2 AND number <= $3";
    Org Read BY_COMMIT => RegistryVersion::TABLE.select("WHERE org_id = $1 AND registry_id = $2 AND commit_id = $3");
    // Selects commit hashes with this prefix, as a range. Hashes are hexadecimal, so `<prefix>g` is greater than all of
    // them.
    Org Read BY_PREFIX => RegistryVersion::TABLE.select(
        "WHERE org_id = $1 AND registry_id = $2 AND commit_id >= $3 AND commit_id < $4 ORDER BY commit_id LIMIT 2");
    Org Read BY_REF => sql("SELECT ").columns(&RegistryVersion::TABLE, "v").then(" FROM registry_refs r JOIN registry_versions v
          ON v.org_id = r.org_id AND v.registry_id = r.registry_id AND v.commit_id = r.commit_id
        WHERE r.org_id = $1 AND r.registry_id = $2 AND r.name = $3");
    Org Read VERSIONS_AFTER = "SELECT registry_id, commit_id, digest FROM registry_versions
        WHERE org_id = $1 AND (registry_id, commit_id) > ($2, $3) ORDER BY registry_id, commit_id LIMIT $4";
    Org Write PUT_VERSION => RegistryVersion::TABLE.insert("");
    Org Upkeep TAG = "INSERT INTO registry_refs (org_id, registry_id, name, is_tag, commit_id) VALUES ($1, $2, $3, 1, $4)
        ON CONFLICT (org_id, registry_id, name) DO NOTHING";
    Org Upkeep BRANCH = "INSERT INTO registry_refs (org_id, registry_id, name, is_tag, commit_id) VALUES ($1, $2, $3, 0, $4)
        ON CONFLICT (org_id, registry_id, name) DO UPDATE SET commit_id = excluded.commit_id
        WHERE registry_refs.is_tag = 0";
    Org Read REFS = "SELECT name FROM registry_refs WHERE org_id = $1 AND registry_id = $2 AND commit_id = $3
        ORDER BY name LIMIT $4";
}

/// The artifact of a registry version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionArtifact {
    pub registry: String,
    pub commit: String,
    pub digest: String,
}
from_row!(VersionArtifact { registry, commit, digest });

impl FromValue for InputMode {
    fn from_value(value: SqlValue) -> Result<Self, String> {
        Ok(if String::from_value(value)? == "file" { InputMode::File } else { InputMode::Argument })
    }
}

impl ToValue for InputMode {
    fn to_value(&self) -> Result<SqlValue, StoreError> {
        let word = match self {
            InputMode::Argument => "argument",
            InputMode::File => "file",
        };
        Ok(word.into())
    }
}

/// Allocates the number of the registry's next build.
pub fn next_number(tx: &mut Tx<'_>, registry: RegistryId) -> Result<i64, StoreError> {
    tx.execute_one(&COUNT, &[text(registry)])?;
    Ok(tx.fetch_optional(&COUNTED, &[text(registry)])?.unwrap_or(1))
}

pub fn by_number(
    db: &mut impl StoreRead,
    registry: RegistryId,
    number: i64,
) -> Result<Option<RegistryBuild>, StoreError> {
    db.fetch_optional(&BY_NUMBER, &[text(registry), number.into()])
}

/// Lists the builds of a registry, newest first.
pub fn list(
    db: &mut impl StoreRead,
    registry: RegistryId,
    from: &PageStart,
    limit: i64,
) -> Result<ListPage<RegistryBuild>, StoreError> {
    let filter = [text(registry)];
    let total = fetch_bounded_count(db, &COUNT_LIST, &filter)?;
    Ok(fetch_page(db, &LIST, &filter, from.by_number(), limit)?.with_total(total))
}

/// Unfinished builds of a registry.
pub fn list_unfinished(
    db: &mut impl StoreRead,
    registry: RegistryId,
    limit: i64,
) -> Result<Vec<RegistryBuild>, StoreError> {
    db.fetch_all(&UNDER_WAY, &[text(registry), limit.into()])
}

pub fn put(tx: &mut Tx<'_>, build: &RegistryBuild) -> Result<(), StoreError> {
    tx.put(&PUT, build)
}

/// Deletes all builds up to this number. The versions that they produced are kept.
pub fn delete_through(tx: &mut Tx<'_>, registry: RegistryId, number: i64) -> Result<(), StoreError> {
    tx.execute(&FORGET, &[text(registry), number.into()]).map(drop)
}

pub fn find_version(
    db: &mut impl StoreRead,
    registry: RegistryId,
    commit: &str,
) -> Result<Option<RegistryVersion>, StoreError> {
    db.fetch_optional(&BY_COMMIT, &[text(registry), commit.into()])
}

/// Finds the versions to which a step type may refer. Returns at most two; two mean that the reference is ambiguous.
pub(crate) fn list_versions(
    db: &mut impl StoreRead,
    registry: RegistryId,
    wanted: VersionQuery<'_>,
) -> Result<Vec<RegistryVersion>, StoreError> {
    match wanted {
        VersionQuery::Commit(commit) => Ok(find_version(db, registry, commit)?.into_iter().collect()),
        VersionQuery::Prefix(prefix) => {
            db.fetch_all(&BY_PREFIX, &[text(registry), prefix.into(), format!("{prefix}g").into()])
        }
        VersionQuery::Named(name) => db.fetch_all(&BY_REF, &[text(registry), name.into()]),
    }
}

/// The artifacts of all registry versions of the organization, one page at a time.
pub fn list_artifacts(
    db: &mut impl StoreRead,
    after: Option<&VersionArtifact>,
) -> Result<Vec<VersionArtifact>, StoreError> {
    let (registry, commit) = after.map_or(("", ""), |it| (&it.registry, &it.commit));
    db.fetch_all(&VERSIONS_AFTER, &[registry.into(), commit.into(), PAGE_ROWS.into()])
}

pub fn put_version(tx: &mut Tx<'_>, version: &RegistryVersion) -> Result<(), StoreError> {
    tx.put(&PUT_VERSION, version)
}

/// Stores a tag. A tag that is already known keeps its first commit, even if it was moved in the repository.
pub fn put_tag(tx: &mut Tx<'_>, registry: RegistryId, name: &str, commit: &str) -> Result<(), StoreError> {
    tx.execute(&TAG, &[text(registry), name.into(), commit.into()]).map(drop)
}

/// Stores the commit that a branch points to now.
pub fn put_branch(tx: &mut Tx<'_>, registry: RegistryId, name: &str, commit: &str) -> Result<(), StoreError> {
    tx.execute(&BRANCH, &[text(registry), name.into(), commit.into()]).map(drop)
}

/// Names of the tags and branches that point to a version.
pub fn list_refs(
    db: &mut impl StoreRead,
    registry: RegistryId,
    commit: &str,
) -> Result<Vec<String>, StoreError> {
    db.fetch_all(&REFS, &[text(registry), commit.into(), REFS_LISTED_MAX.into()])
}
