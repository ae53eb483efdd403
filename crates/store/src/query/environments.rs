//! Deployments of a session.

use berth_core::deployment::Deployment;
use berth_core::id::SessionId;

use crate::error::StoreError;
use crate::records::deployment;
use crate::sql::statements;
use crate::sql::value::text;
use crate::tx::Read;

/// Deployments listed for a session.
pub const SESSION_DEPLOYMENTS_MAX: i64 = 100;

statements! {
    Org Read OF_SESSION = "SELECT id, number, pipeline_id, environment_id, stage, definition_hash, session_id, fence,
          commit_id, requested_by, overrides_drain, status, runner, nonce, granted_at, cancel, failure, superseded_by,
          created_at, started_at, finished_at, resolved_commit, reason, retry_of
        FROM deployments WHERE org_id = $1 AND session_id = $2 ORDER BY number DESC LIMIT $3";
}

/// Newest first.
pub fn deployments_of(db: &mut impl Read, session: SessionId) -> Result<Vec<Deployment>, StoreError> {
    let rows = db.rows(&OF_SESSION, &[text(session), SESSION_DEPLOYMENTS_MAX.into()])?;
    rows.iter().map(deployment::read).collect()
}
