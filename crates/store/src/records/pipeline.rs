//! Pipelines and their definitions.

use berth_core::event::Actor;
use berth_core::id::PipelineId;
use berth_core::name::Slug;
use berth_core::pipeline::origin::Origin;
use berth_core::pipeline::state::{Pipeline, Status};

use crate::error::StoreError;
use crate::records::{registry, secret};
use crate::sql::statements;
use crate::tx::{Read, Tx};
use crate::value::{Row, text, to_json};

statements! {
    Org Read BY_ID = "SELECT id, slug, name, status, stopped_by, stopped_at, stop_reason, definition_hash, outline,
        version, created_at, updated_at, deleted_at, repository_id, path, head, retired_at FROM pipelines
        WHERE org_id = $1 AND id = $2 AND deleted_at IS NULL {for_update}";
    Org Read BY_SLUG = "SELECT id, slug, name, status, stopped_by, stopped_at, stop_reason, definition_hash, outline,
        version, created_at, updated_at, deleted_at, repository_id, path, head, retired_at FROM pipelines
        WHERE org_id = $1 AND slug = $2 AND deleted_at IS NULL {for_update}";
    Org Write PUT = "INSERT INTO pipelines (org_id, id, slug, name, search_key, status, stopped_by, stopped_at,
          stop_reason, definition_hash, outline, version, created_at, updated_at, deleted_at, repository_id, path, retired_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)
        ON CONFLICT (org_id, id) DO UPDATE SET name = excluded.name, search_key = excluded.search_key,
          status = excluded.status, stopped_by = excluded.stopped_by, stopped_at = excluded.stopped_at,
          stop_reason = excluded.stop_reason, definition_hash = excluded.definition_hash,
          outline = excluded.outline, version = excluded.version, updated_at = excluded.updated_at,
          deleted_at = excluded.deleted_at, repository_id = excluded.repository_id, path = excluded.path,
          retired_at = excluded.retired_at
        WHERE pipelines.version = excluded.version - 1";
    // Nothing anybody decided: what follows from it is told by the deployment that it starts.
    Org Upkeep MOVE_HEAD = "UPDATE pipelines SET head = $3 WHERE org_id = $1 AND id = $2";
    Org Read DEFINITION = "SELECT source FROM definitions WHERE org_id = $1 AND hash = $2";
    Org Write PUT_DEFINITION = "INSERT INTO definitions (org_id, hash, source, created_at) VALUES ($1, $2, $3, $4)
        ON CONFLICT (org_id, hash) DO NOTHING";
}

pub(crate) fn read(row: &Row) -> Result<Pipeline, StoreError> {
    let status = match row.text(3)? {
        "stopped" => {
            Status::Stopped { by: row.json::<Actor>(4)?, at: row.time(5)?, reason: row.maybe(6, Row::name)? }
        }
        _ => Status::Active,
    };
    let origin = match row.maybe(13, Row::parse)? {
        Some(repository) => Some(Origin { repository, path: row.text(14)?.to_owned() }),
        None => None,
    };
    Ok(Pipeline {
        id: row.parse(0)?,
        slug: row.name(1)?,
        name: row.name(2)?,
        status,
        definition_hash: row.text(7)?.to_owned(),
        outline: row.json(8)?,
        origin,
        head: row.maybe(15, Row::text)?.map(str::to_owned),
        retired_at: row.maybe(16, Row::time)?,
        version: row.int(9)?,
        created_at: row.time(10)?,
        updated_at: row.time(11)?,
        deleted_at: row.maybe(12, Row::time)?,
    })
}

pub fn by_id(db: &mut impl Read, id: PipelineId) -> Result<Option<Pipeline>, StoreError> {
    db.row(&BY_ID, &[text(id)])?.as_ref().map(read).transpose()
}

pub fn by_slug(db: &mut impl Read, slug: &Slug) -> Result<Option<Pipeline>, StoreError> {
    db.row(&BY_SLUG, &[text(slug)])?.as_ref().map(read).transpose()
}

/// By the id or the slug in a URL; text that can be neither is simply not found.
pub fn find(db: &mut impl Read, key: &str) -> Result<Option<Pipeline>, StoreError> {
    if let Ok(id) = key.parse() {
        return by_id(db, id);
    }
    Slug::parse(key).map_or(Ok(None), |slug| by_slug(db, &slug))
}

pub(crate) fn put(tx: &mut Tx<'_>, pipeline: &Pipeline) -> Result<(), StoreError> {
    let (status, by, at, reason) = match &pipeline.status {
        Status::Active => ("active", None, None, None),
        Status::Stopped { by, at, reason } => ("stopped", Some(to_json(by)?), Some(*at), reason.as_ref()),
    };
    let params = [
        text(pipeline.id),
        text(&pipeline.slug),
        text(&pipeline.name),
        search_key(pipeline).into(),
        status.into(),
        by.into(),
        at.into(),
        reason.map(text).into(),
        pipeline.definition_hash.as_str().into(),
        to_json(&pipeline.outline)?.into(),
        pipeline.version.into(),
        pipeline.created_at.into(),
        pipeline.updated_at.into(),
        pipeline.deleted_at.into(),
        pipeline.origin.as_ref().map(|origin| text(origin.repository)).into(),
        pipeline.origin.as_ref().map(|origin| origin.path.as_str()).into(),
        pipeline.retired_at.into(),
    ];
    tx.execute_one(&PUT, &params)?;
    let used = pipeline.outline.secrets.iter().filter(|_| pipeline.deleted_at.is_none());
    secret::note_uses(tx, pipeline.id, used)?;
    let used = pipeline.outline.custom_types.iter().filter(|_| pipeline.deleted_at.is_none());
    registry::note_uses(tx, pipeline.id, used)
}

/// The head of its tracked branch that was acted upon.
pub fn move_head(tx: &mut Tx<'_>, pipeline: PipelineId, head: &str) -> Result<(), StoreError> {
    tx.execute_one(&MOVE_HEAD, &[text(pipeline), head.into()])
}

pub fn definition(db: &mut impl Read, hash: &str) -> Result<Option<String>, StoreError> {
    db.row(&DEFINITION, &[hash.into()])?.map(|row| row.text(0).map(str::to_owned)).transpose()
}

/// Keeps a definition's text under its hash; a pipeline that refers to it is written in the same transaction.
pub fn put_definition(tx: &mut Tx<'_>, hash: &str, source: &str) -> Result<(), StoreError> {
    let now = tx.now();
    tx.execute(&PUT_DEFINITION, &[hash.into(), source.into(), now.into()]).map(drop)
}

// LIKE differs in case rules between the engines, so what is searched is stored in lower case.
fn search_key(pipeline: &Pipeline) -> String {
    format!("{}\n{}", pipeline.slug, pipeline.name.as_str().to_lowercase())
}
