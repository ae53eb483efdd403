//! Lists of repositories, and which of them are due.

use berth_core::id::{OrgId, RepositoryId};
use berth_core::repository::Repository;
use berth_core::time::Timestamp;

use super::{From, Slice, count, page};
use crate::error::StoreError;
use crate::records::repository::read;
use crate::sql::statements;
use crate::tx::Read;

statements! {
    Org Read LIST = "SELECT id, url, credential, poll_seconds, default_branch, head, synced_at, error, failures, problems,
        due_at, version, created_at, updated_at, deleted_at FROM repositories
        WHERE org_id = $1 AND deleted_at IS NULL AND id > $2 ORDER BY id LIMIT $3 OFFSET $4";
    Org Read COUNT = "SELECT CAST(COUNT(*) AS BIGINT) FROM repositories WHERE org_id = $1 AND deleted_at IS NULL";
    // One probe of an index for each organization, however many of its repositories are due.
    Instance Read DUE = "SELECT org_id, id FROM (SELECT o.id AS org_id,
            (SELECT r.id FROM repositories r WHERE r.org_id = o.id AND r.due_at IS NOT NULL
              ORDER BY r.due_at, r.id LIMIT 1) AS id,
            (SELECT MIN(r.due_at) FROM repositories r WHERE r.org_id = o.id AND r.due_at IS NOT NULL) AS due_at
          FROM organizations o) AS heads
        WHERE due_at <= $1 ORDER BY due_at, id LIMIT $2";
}

pub fn list(db: &mut impl Read, from: &From, limit: i64) -> Result<Slice<Repository>, StoreError> {
    page(db, &LIST, &COUNT, from, limit, read)
}

pub fn total(db: &mut impl Read) -> Result<i64, StoreError> {
    count(db, &COUNT)
}

/// The one that has been due for longest, of each organization.
pub fn due(db: &mut impl Read, now: Timestamp, limit: i64) -> Result<Vec<(OrgId, RepositoryId)>, StoreError> {
    let rows = db.rows(&DUE, &[now.into(), limit.into()])?;
    rows.iter().map(|row| Ok((row.parse(0)?, row.parse(1)?))).collect()
}
