//! Builds of registries, and the versions that came out of them.

use berth_core::id::RegistryId;
use berth_core::registry::{Build, InputMode, Version};

use crate::error::StoreError;
use crate::sql::statements;
use crate::tx::{Read, Tx};
use crate::value::{Row, text, to_json};

statements! {
    Org Upkeep COUNT = "UPDATE registries SET builds = builds + 1 WHERE org_id = $1 AND id = $2";
    Org Read COUNTED = "SELECT builds FROM registries WHERE org_id = $1 AND id = $2";
    Org Read BY_NUMBER = "SELECT registry_id, number, status, commit_id, started_at, finished_at, error FROM registry_builds
        WHERE org_id = $1 AND registry_id = $2 AND number = $3";
    // How it ends has its events.
    Org Upkeep PUT = "INSERT INTO registry_builds
        (org_id, registry_id, number, status, commit_id, started_at, finished_at, error)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
        ON CONFLICT (org_id, registry_id, number) DO UPDATE SET status = excluded.status,
          finished_at = excluded.finished_at, error = excluded.error";
    Org Upkeep FORGET = "DELETE FROM registry_builds WHERE org_id = $1 AND registry_id = $2 AND number <= $3";
    Org Read BY_COMMIT = "SELECT registry_id, commit_id, number, digest, start, input, steps, built_at
        FROM registry_versions WHERE org_id = $1 AND registry_id = $2 AND commit_id = $3";
    Org Write PUT_VERSION = "INSERT INTO registry_versions
        (org_id, registry_id, commit_id, number, digest, start, input, steps, built_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
    Org Upkeep TAG = "INSERT INTO registry_refs (org_id, registry_id, name, is_tag, commit_id) VALUES ($1, $2, $3, 1, $4)
        ON CONFLICT (org_id, registry_id, name) DO NOTHING";
    Org Upkeep BRANCH = "INSERT INTO registry_refs (org_id, registry_id, name, is_tag, commit_id) VALUES ($1, $2, $3, 0, $4)
        ON CONFLICT (org_id, registry_id, name) DO UPDATE SET commit_id = excluded.commit_id
        WHERE registry_refs.is_tag = 0";
    Org Read REFS = "SELECT name FROM registry_refs WHERE org_id = $1 AND registry_id = $2 AND commit_id = $3
        ORDER BY name LIMIT $4";
}

/// Names of one version that are listed.
const REFS_LISTED_MAX: i64 = 100;

pub(crate) fn read(row: &Row) -> Result<Build, StoreError> {
    Ok(Build {
        registry: row.parse(0)?,
        number: row.int(1)?,
        status: row.parse(2)?,
        commit: row.text(3)?.to_owned(),
        started_at: row.time(4)?,
        finished_at: row.maybe(5, Row::time)?,
        error: row.maybe(6, Row::text)?.map(str::to_owned),
    })
}

pub(crate) fn read_version(row: &Row) -> Result<Version, StoreError> {
    Ok(Version {
        registry: row.parse(0)?,
        commit: row.text(1)?.to_owned(),
        number: row.int(2)?,
        digest: row.text(3)?.to_owned(),
        start: row.text(4)?.to_owned(),
        input: if row.text(5)? == "file" { InputMode::File } else { InputMode::Argument },
        steps: row.json(6)?,
        built_at: row.time(7)?,
    })
}

/// The number of the build that begins now.
pub fn next_number(tx: &mut Tx<'_>, registry: RegistryId) -> Result<i64, StoreError> {
    tx.execute_one(&COUNT, &[text(registry)])?;
    tx.row(&COUNTED, &[text(registry)])?.map_or(Ok(1), |row| row.int(0))
}

pub fn by_number(db: &mut impl Read, registry: RegistryId, number: i64) -> Result<Option<Build>, StoreError> {
    db.row(&BY_NUMBER, &[text(registry), number.into()])?.as_ref().map(read).transpose()
}

pub fn put(tx: &mut Tx<'_>, build: &Build) -> Result<(), StoreError> {
    let params = [
        text(build.registry),
        build.number.into(),
        text(build.status),
        build.commit.as_str().into(),
        build.started_at.into(),
        build.finished_at.into(),
        build.error.as_deref().into(),
    ];
    tx.execute_one(&PUT, &params)
}

/// Builds up to this number are no longer listed. Their versions stay.
pub fn forget(tx: &mut Tx<'_>, registry: RegistryId, number: i64) -> Result<(), StoreError> {
    tx.execute(&FORGET, &[text(registry), number.into()]).map(drop)
}

pub fn version(
    db: &mut impl Read,
    registry: RegistryId,
    commit: &str,
) -> Result<Option<Version>, StoreError> {
    db.row(&BY_COMMIT, &[text(registry), commit.into()])?.as_ref().map(read_version).transpose()
}

pub fn put_version(tx: &mut Tx<'_>, version: &Version) -> Result<(), StoreError> {
    let input = match version.input {
        InputMode::Argument => "argument",
        InputMode::File => "file",
    };
    let params = [
        text(version.registry),
        version.commit.as_str().into(),
        version.number.into(),
        version.digest.as_str().into(),
        version.start.as_str().into(),
        input.into(),
        to_json(&version.steps)?.into(),
        version.built_at.into(),
    ];
    tx.execute_one(&PUT_VERSION, &params)
}

/// A tag points at a version. One that is known stays where it was first seen, wherever it is moved.
pub fn note_tag(tx: &mut Tx<'_>, registry: RegistryId, name: &str, commit: &str) -> Result<(), StoreError> {
    tx.execute(&TAG, &[text(registry), name.into(), commit.into()]).map(drop)
}

/// A branch is where it was last seen.
pub fn note_branch(
    tx: &mut Tx<'_>,
    registry: RegistryId,
    name: &str,
    commit: &str,
) -> Result<(), StoreError> {
    tx.execute(&BRANCH, &[text(registry), name.into(), commit.into()]).map(drop)
}

/// What else a version is called.
pub fn refs(db: &mut impl Read, registry: RegistryId, commit: &str) -> Result<Vec<String>, StoreError> {
    let rows = db.rows(&REFS, &[text(registry), commit.into(), REFS_LISTED_MAX.into()])?;
    rows.iter().map(|row| Ok(row.text(0)?.to_owned())).collect()
}
