//! Lists of pipelines, in the order they were created.

use berth_core::id::RepositoryId;
use berth_core::pipeline::state::Pipeline;

use super::{COUNTED_MAX, From, Slice, counted, page};
use crate::error::StoreError;
use crate::records::pipeline::read;
use crate::sql::statements;
use crate::tx::Read;
use crate::value::{Value, text};

statements! {
    Org Read LIST = "SELECT id, slug, name, status, stopped_by, stopped_at, stop_reason, definition_hash, outline,
        version, created_at, updated_at, deleted_at, repository_id, path, head, retired_at FROM pipelines
        WHERE org_id = $1 AND deleted_at IS NULL AND id > $2 ORDER BY id LIMIT $3 OFFSET $4";
    Org Read COUNT = "SELECT CAST(COUNT(*) AS BIGINT) FROM pipelines WHERE org_id = $1 AND deleted_at IS NULL";
    Org Read FILTERED = "SELECT id, slug, name, status, stopped_by, stopped_at, stop_reason, definition_hash, outline,
        version, created_at, updated_at, deleted_at, repository_id, path, head, retired_at FROM pipelines
        WHERE org_id = $1 AND deleted_at IS NULL AND id > $2 AND (CAST($3 AS TEXT) IS NULL OR status = $3)
          AND (CAST($4 AS TEXT) IS NULL OR search_key LIKE $4 ESCAPE '\\')
        ORDER BY id LIMIT $5 OFFSET $6";
    Org Read OF_REPOSITORY = "SELECT id, slug, name, status, stopped_by, stopped_at, stop_reason, definition_hash, outline,
        version, created_at, updated_at, deleted_at, repository_id, path, head, retired_at FROM pipelines
        WHERE org_id = $1 AND repository_id = $2 AND deleted_at IS NULL ORDER BY id LIMIT $3";
    Org Read COUNT_FILTERED = "SELECT CAST(COUNT(*) AS BIGINT) FROM (SELECT id FROM pipelines
        WHERE org_id = $1 AND deleted_at IS NULL AND (CAST($2 AS TEXT) IS NULL OR status = $2)
          AND (CAST($3 AS TEXT) IS NULL OR search_key LIKE $3 ESCAPE '\\') ORDER BY id LIMIT $4) AS counted";
}

#[derive(Debug, Clone, Default)]
pub struct Filter {
    pub status: Option<String>,
    /// Part of the slug or the name, in any case.
    pub search: Option<String>,
}

pub fn list(
    db: &mut impl Read,
    filter: &Filter,
    from: &From,
    limit: i64,
) -> Result<Slice<Pipeline>, StoreError> {
    if filter.status.is_some() || filter.search.is_some() {
        return filtered(db, filter, from, limit);
    }
    page(db, &LIST, &COUNT, from, limit, read)
}

fn filtered(
    db: &mut impl Read,
    filter: &Filter,
    from: &From,
    limit: i64,
) -> Result<Slice<Pipeline>, StoreError> {
    let status: Value = filter.status.as_deref().into();
    let pattern: Value = filter.search.as_deref().map(pattern).into();
    let (after, offset) = match from {
        From::After(id) => (id.as_str(), 0),
        From::Offset(offset) => ("", *offset),
    };
    let params = [after.into(), status.clone(), pattern.clone(), (limit + 1).into(), offset.into()];
    let rows = db.rows(&FILTERED, &params)?;
    let slice = Slice::cut(rows.iter().map(read).collect::<Result<_, _>>()?, limit, None);
    // A search walks the list. When all that it found is on this page, there is nothing left to count.
    let total = if !slice.has_more && *from == From::Offset(0) {
        i64::try_from(slice.items.len()).ok()
    } else {
        let count = db.row(&COUNT_FILTERED, &[status, pattern, (COUNTED_MAX + 1).into()])?;
        counted(count.map_or(Ok(0), |row| row.int(0))?)
    };
    Ok(Slice { total, ..slice })
}

fn pattern(search: &str) -> String {
    let escaped = search.to_lowercase().replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_");
    format!("%{escaped}%")
}

/// The pipelines that come from a repository, retired ones too.
pub fn of_repository(
    db: &mut impl Read,
    repository: RepositoryId,
    limit: i64,
) -> Result<Vec<Pipeline>, StoreError> {
    let rows = db.rows(&OF_REPOSITORY, &[text(repository), limit.into()])?;
    rows.iter().map(read).collect()
}
