//! Pipelines and their definitions.

use berth_core::event::Actor;
use berth_core::id::{PipelineId, RepositoryId};
use berth_core::name::{Reason, Slug};
use berth_core::pipeline::origin::DefinitionOrigin;
use berth_core::pipeline::state::{DefinitionOutline, Pipeline, PipelineActivity};
use berth_core::time::Timestamp;

use super::{PAGE_ROWS, first_after, pipeline_search, registry, secret};
use crate::error::StoreError;
use crate::pagination::{ListPage, PageStart, fetch_bounded_count, fetch_page};
use crate::sql::value::{SqlValue, text};
use crate::sql::{FromRow, RowReader, TableRow as _, ToParams, json_columns, statements, table};
use crate::tx::{StoreRead, Tx};

table!(Org Pipeline in pipelines {
    key: [id],
    update: [
        name, status: (status, stopped_by, stopped_at, stop_reason), definition_hash, outline, version, updated_at,
        deleted_at, origin: (repository_id, path), retired_at,
    ],
    derived: [search_key = search_key],
    insert: [slug, created_at],
    read: [head],
});
json_columns!(DefinitionOutline);

statements! {
    Org Read BY_ID => Pipeline::TABLE.select("WHERE org_id = $1 AND id = $2 AND deleted_at IS NULL {for_update}");
    Org Read SLUG = "SELECT slug FROM pipelines WHERE org_id = $1 AND id = $2";
    Org Read BY_SLUG => Pipeline::TABLE.select("WHERE org_id = $1 AND slug = $2 AND deleted_at IS NULL {for_update}");
    Org Read LIST => Pipeline::TABLE.select(
        "WHERE org_id = $1 AND deleted_at IS NULL AND id > $2 ORDER BY id LIMIT $3 OFFSET $4");
    Org Read COUNT = "SELECT CAST(COUNT(*) AS BIGINT) FROM pipelines WHERE org_id = $1 AND deleted_at IS NULL";
    Org Read FILTERED => Pipeline::TABLE.select(
        "WHERE org_id = $1 AND deleted_at IS NULL AND (CAST($2 AS TEXT) IS NULL OR status = $2)
          AND (CAST($3 AS TEXT) IS NULL OR search_key LIKE $3 ESCAPE '\\') AND id > $4
        ORDER BY id LIMIT $5 OFFSET $6");
    Org Read COUNT_FILTERED = "SELECT CAST(COUNT(*) AS BIGINT) FROM (SELECT id FROM pipelines
        WHERE org_id = $1 AND deleted_at IS NULL AND (CAST($2 AS TEXT) IS NULL OR status = $2)
          AND (CAST($3 AS TEXT) IS NULL OR search_key LIKE $3 ESCAPE '\\') ORDER BY id LIMIT $4) AS counted";
    // The trigram is in few pipelines, so the order of the list is not used to find them.
    Org Read FOUND => Pipeline::TABLE.select(
        "WHERE org_id = $1 AND deleted_at IS NULL AND (CAST($2 AS TEXT) IS NULL OR status = $2)
          AND search_key LIKE $3 ESCAPE '\\' AND id > $5
          AND id IN (SELECT pipeline_id FROM pipeline_trigrams t WHERE t.org_id = $1 AND t.trigram = $4)
        ORDER BY id LIMIT $6 OFFSET $7");
    Org Read COUNT_FOUND = "SELECT CAST(COUNT(*) AS BIGINT) FROM (SELECT id FROM pipelines
        WHERE org_id = $1 AND deleted_at IS NULL AND (CAST($2 AS TEXT) IS NULL OR status = $2)
          AND search_key LIKE $3 ESCAPE '\\'
          AND id IN (SELECT pipeline_id FROM pipeline_trigrams t WHERE t.org_id = $1 AND t.trigram = $4)
        LIMIT $5) AS counted";
    Org Read SEARCH_KEY = "SELECT search_key FROM pipelines WHERE org_id = $1 AND id = $2 AND deleted_at IS NULL";
    Org Read OF_REPOSITORY => Pipeline::TABLE.select(
        "WHERE org_id = $1 AND repository_id = $2 AND deleted_at IS NULL ORDER BY id LIMIT $3");
    Org Read ACTIVE_AFTER = "SELECT id FROM pipelines
        WHERE org_id = $1 AND id > $2 AND status = 'active' AND deleted_at IS NULL ORDER BY id LIMIT $3";
    Org Write PUT => Pipeline::TABLE.upsert("WHERE pipelines.version = excluded.version - 1");
    // Needs no event, because the deployment that is started for the new head records one.
    Org Upkeep MOVE_HEAD = "UPDATE pipelines SET head = $3 WHERE org_id = $1 AND id = $2";
    Org Read DEFINITION = "SELECT source FROM definitions WHERE org_id = $1 AND hash = $2";
    Org Write PUT_DEFINITION = "INSERT INTO definitions (org_id, hash, source, created_at) VALUES ($1, $2, $3, $4)
        ON CONFLICT (org_id, hash) DO NOTHING";
}

#[derive(Debug, Clone, Default)]
pub struct PipelineFilter {
    pub status: Option<String>,
    /// Text that occurs in the slug or the name, ignoring case.
    pub search: Option<String>,
}

impl FromRow for PipelineActivity {
    fn from_row(row: &mut RowReader) -> Result<Self, StoreError> {
        let status: String = row.take()?;
        if status != "stopped" {
            row.skip(3);
            return Ok(PipelineActivity::Active);
        }
        let (by, at, reason) = row.take()?;
        Ok(PipelineActivity::Stopped { by, at, reason })
    }
}

impl ToParams for PipelineActivity {
    fn to_params(&self, params: &mut Vec<SqlValue>) -> Result<(), StoreError> {
        match self {
            PipelineActivity::Active => {
                ("active", None::<Actor>, None::<Timestamp>, None::<Reason>).to_params(params)
            }
            PipelineActivity::Stopped { by, at, reason } => ("stopped", by, at, reason).to_params(params),
        }
    }
}

impl FromRow for Option<DefinitionOrigin> {
    fn from_row(row: &mut RowReader) -> Result<Self, StoreError> {
        let (repository, path): (Option<_>, Option<_>) = row.take()?;
        Ok(repository.zip(path).map(|(repository, path)| DefinitionOrigin { repository, path }))
    }
}

impl ToParams for Option<DefinitionOrigin> {
    fn to_params(&self, params: &mut Vec<SqlValue>) -> Result<(), StoreError> {
        let origin = self.as_ref();
        (origin.map(|origin| origin.repository), origin.map(|origin| &origin.path)).to_params(params)
    }
}

pub fn by_id(db: &mut impl StoreRead, id: PipelineId) -> Result<Option<Pipeline>, StoreError> {
    db.fetch_optional(&BY_ID, &[text(id)])
}

/// The slug of a pipeline, even if it was deleted.
pub fn find_slug(db: &mut impl StoreRead, id: PipelineId) -> Result<Option<Slug>, StoreError> {
    db.fetch_optional(&SLUG, &[text(id)])
}

pub fn by_slug(db: &mut impl StoreRead, slug: &Slug) -> Result<Option<Pipeline>, StoreError> {
    db.fetch_optional(&BY_SLUG, &[text(slug)])
}

/// Finds a pipeline by the id or slug from a URL.
pub fn find(db: &mut impl StoreRead, key: &str) -> Result<Option<Pipeline>, StoreError> {
    if let Ok(id) = key.parse() {
        return by_id(db, id);
    }
    Slug::parse(key).map_or(Ok(None), |slug| by_slug(db, &slug))
}

/// Lists pipelines in the order in which they were created.
pub fn list(
    db: &mut impl StoreRead,
    filter: &PipelineFilter,
    from: &PageStart,
    limit: i64,
) -> Result<ListPage<Pipeline>, StoreError> {
    if filter.status.is_none() && filter.search.is_none() {
        let total = db.fetch_count(&COUNT, &[])?;
        return Ok(fetch_page(db, &LIST, &[], from.by_id(), limit)?.with_total(Some(total)));
    }
    let mut params = vec![filter.status.as_deref().into(), filter.search.as_deref().map(like_pattern).into()];
    let search = filter.search.as_deref().map(str::to_lowercase).unwrap_or_default();
    let (list, count) = match pipeline_search::find_rare_trigram(db, &search)? {
        Some(trigram) => {
            params.push(trigram.into());
            (&FOUND, &COUNT_FOUND)
        }
        None => (&FILTERED, &COUNT_FILTERED),
    };
    let page: ListPage<_> = fetch_page(db, list, &params, from.by_id(), limit)?;
    // Counting scans the whole list, so it is skipped if the first page already contains all matches.
    let total = if !page.has_more && *from == PageStart::Offset(0) {
        i64::try_from(page.items.len()).ok()
    } else {
        fetch_bounded_count(db, count, &params)?
    };
    Ok(page.with_total(total))
}

fn like_pattern(search: &str) -> String {
    let escaped = search.to_lowercase().replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_");
    format!("%{escaped}%")
}

// Stored in lower case, because LIKE is case-sensitive in PostgreSQL but not in SQLite.
fn search_key(pipeline: &Pipeline) -> String {
    format!("{}\n{}", pipeline.slug, pipeline.name.as_str().to_lowercase())
}

/// Pipelines whose definitions come from this repository, including retired pipelines.
pub fn list_of_repository(
    db: &mut impl StoreRead,
    repository: RepositoryId,
    limit: i64,
) -> Result<Vec<Pipeline>, StoreError> {
    db.fetch_all(&OF_REPOSITORY, &[text(repository), limit.into()])
}

/// Ids of the organization's active pipelines, one page at a time.
pub fn list_active_ids(
    db: &mut impl StoreRead,
    after: Option<PipelineId>,
) -> Result<Vec<PipelineId>, StoreError> {
    db.fetch_all(&ACTIVE_AFTER, &[first_after(after), PAGE_ROWS.into()])
}

pub(crate) fn put(tx: &mut Tx<'_>, pipeline: &Pipeline) -> Result<(), StoreError> {
    let key = pipeline.deleted_at.is_none().then(|| search_key(pipeline));
    let stored_key: Option<String> = tx.fetch_optional(&SEARCH_KEY, &[text(pipeline.id)])?;
    tx.put(&PUT, pipeline)?;
    if key != stored_key {
        pipeline_search::replace(tx, pipeline.id, key.as_deref())?;
    }
    let used = pipeline.outline.secrets.iter().filter(|_| pipeline.deleted_at.is_none());
    secret::replace_uses(tx, pipeline.id, used)?;
    let used = pipeline.outline.custom_types.iter().filter(|_| pipeline.deleted_at.is_none());
    registry::replace_uses(tx, pipeline.id, used)
}

/// Stores the head commit of the tracked branch. Called after its deployments were started.
pub fn move_head(tx: &mut Tx<'_>, pipeline: PipelineId, head: &str) -> Result<(), StoreError> {
    tx.execute_one(&MOVE_HEAD, &[text(pipeline), head.into()])
}

/// Loads the text of the definition that has this hash.
pub fn load_definition(db: &mut impl StoreRead, hash: &str) -> Result<Option<String>, StoreError> {
    db.fetch_optional(&DEFINITION, &[hash.into()])
}

/// Stores a definition under its hash. The same transaction must also write a pipeline that refers to it.
pub fn put_definition(tx: &mut Tx<'_>, hash: &str, source: &str) -> Result<(), StoreError> {
    let now = tx.now();
    tx.execute(&PUT_DEFINITION, &[hash.into(), source.into(), now.into()]).map(drop)
}
