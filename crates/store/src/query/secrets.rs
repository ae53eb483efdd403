//! Lists of secrets, and who uses one.

use berth_core::id::PipelineId;
use berth_core::name::Slug;
use berth_core::secret::{Scope, Secret};

use super::{From, Slice, count, page};
use crate::error::StoreError;
use crate::records::secret::read;
use crate::sql::statements;
use crate::tx::Read;
use crate::value::text;

/// Users of one secret that are named.
pub const USERS_LISTED_MAX: i64 = 100;

statements! {
    Org Read LIST = "SELECT id, name, scope, description, version, revision, created_at, updated_at FROM secrets
        WHERE org_id = $1 AND id > $2 ORDER BY id LIMIT $3 OFFSET $4";
    Org Read COUNT = "SELECT CAST(COUNT(*) AS BIGINT) FROM secrets WHERE org_id = $1";
    Org Read OF_PIPELINE = "SELECT id, name, scope, description, version, revision, created_at, updated_at FROM secrets
        WHERE org_id = $1 AND (scope = $2 OR (scope > $3 AND scope < $4)) ORDER BY id LIMIT $5";
    // Whoever has a secret of that name of its own does not use the organization's.
    Org Read USERS = "SELECT p.id, p.slug FROM secret_uses u
        JOIN pipelines p ON p.org_id = u.org_id AND p.id = u.pipeline_id
        WHERE u.org_id = $1 AND u.name = $2 AND (CAST($3 AS TEXT) IS NULL OR u.pipeline_id = $3)
          AND (CAST($3 AS TEXT) IS NOT NULL OR NOT EXISTS (SELECT 1 FROM secrets s
            WHERE s.org_id = u.org_id AND s.name = u.name AND s.scope = 'pipeline/' || u.pipeline_id))
        ORDER BY p.id LIMIT $4";
}

/// A pipeline whose definition names a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretUser {
    pub pipeline: PipelineId,
    pub slug: Slug,
}

pub fn list(db: &mut impl Read, from: &From, limit: i64) -> Result<Slice<Secret>, StoreError> {
    page(db, &LIST, &COUNT, from, limit, read)
}

pub fn total(db: &mut impl Read) -> Result<i64, StoreError> {
    count(db, &COUNT)
}

pub fn users(db: &mut impl Read, secret: &Secret) -> Result<Vec<SecretUser>, StoreError> {
    let only = secret.scope.pipeline().map(text).into();
    let rows = db.rows(&USERS, &[text(&secret.name), only, USERS_LISTED_MAX.into()])?;
    rows.iter().map(|row| Ok(SecretUser { pipeline: row.parse(0)?, slug: row.name(1)? })).collect()
}

/// The secrets that belong to a pipeline or one of its stages.
pub fn of_pipeline(db: &mut impl Read, pipeline: PipelineId, limit: i64) -> Result<Vec<Secret>, StoreError> {
    let own = Scope::Pipeline(pipeline);
    // Every text that begins with `stage/<pipeline>/`: the character after `/` is `0`.
    let (first, last) = (format!("stage/{pipeline}/"), format!("stage/{pipeline}0"));
    let rows = db.rows(&OF_PIPELINE, &[text(own), first.into(), last.into(), limit.into()])?;
    rows.iter().map(read).collect()
}
