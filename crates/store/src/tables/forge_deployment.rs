//! Deployments that forges should show, where they have their own.

use berth_core::forge::progress::DeploymentProgress;
use berth_core::forge_deployment::ForgeDeploymentRecord;
use berth_core::id::{DeploymentId, OrgId, RepositoryId};
use berth_core::time::Timestamp;

use crate::error::StoreError;
use crate::sql::value::text;
use crate::sql::{TableRow as _, statements, table, word_columns};
use crate::tx::{StoreRead, Tx};

/// Maximum number of deployments that one newer deployment replaces.
const ACTIVE_MAX: i64 = 100;

table!(Org ForgeDeploymentRecord in forge_deployments {
    key: [repository: repository_id, deployment: deployment_id, environment],
    update: [
        progress, description, forge_id, write: (version, written_version, wanted_at, failures, error, due_at),
    ],
    insert: [commit: commit_id, is_transient],
});
word_columns!(DeploymentProgress: DeploymentProgress::ALL);

// Needs no events: it repeats what the events of the deployment say.
statements! {
    Org Read BY_KEY => ForgeDeploymentRecord::TABLE.select("WHERE org_id = $1 AND repository_id = $2
        AND deployment_id = $3 AND environment = $4 {for_update}");
    Org Upkeep PUT => ForgeDeploymentRecord::TABLE.upsert("");
    // What is deployed in an environment. There is one, except until those that it replaced are deactivated.
    Org Read ACTIVE => ForgeDeploymentRecord::TABLE.select("WHERE org_id = $1 AND repository_id = $2
        AND environment = $3 AND progress = 'success' ORDER BY deployment_id LIMIT $4");
    // Repositories with a due deployment, unless they are paused.
    Instance Read DUE = "SELECT org_id, repository_id FROM forge_deployments WHERE due_at IS NOT NULL
        GROUP BY org_id, repository_id
        HAVING MIN(due_at) <= $1 AND COALESCE(MAX(paused_until), CAST(0 AS BIGINT)) <= $1
        ORDER BY MIN(due_at), repository_id LIMIT $2";
    Org Read NEXT => ForgeDeploymentRecord::TABLE.select("WHERE org_id = $1 AND repository_id = $2 AND due_at <= $3
        ORDER BY wanted_at, deployment_id, environment LIMIT 1");
    Org Upkeep PAUSE = "UPDATE forge_deployments SET paused_until = $3
        WHERE org_id = $1 AND repository_id = $2 AND due_at IS NOT NULL";
    Org Read LAST_ERROR = "SELECT error FROM forge_deployments WHERE org_id = $1 AND repository_id = $2
        AND due_at IS NOT NULL AND error IS NOT NULL ORDER BY wanted_at DESC LIMIT 1";
    // What is deployed is kept until something replaces it.
    Instance Upkeep DELETE_OLD = "DELETE FROM forge_deployments
        WHERE due_at IS NULL AND wanted_at < $1 AND progress <> 'success'";
}

pub fn by_key(
    db: &mut impl StoreRead,
    repository: RepositoryId,
    deployment: DeploymentId,
    environment: &str,
) -> Result<Option<ForgeDeploymentRecord>, StoreError> {
    db.fetch_optional(&BY_KEY, &[text(repository), text(deployment), environment.into()])
}

pub fn put(tx: &mut Tx<'_>, deployment: &ForgeDeploymentRecord) -> Result<(), StoreError> {
    tx.put(&PUT, deployment)
}

/// The successful deployments of an environment that were not replaced, oldest first.
pub fn list_active(
    db: &mut impl StoreRead,
    repository: RepositoryId,
    environment: &str,
) -> Result<Vec<ForgeDeploymentRecord>, StoreError> {
    db.fetch_all(&ACTIVE, &[text(repository), environment.into(), ACTIVE_MAX.into()])
}

/// Repositories that have a deployment to write, longest due first.
pub fn list_due(db: &mut impl StoreRead, limit: i64) -> Result<Vec<(OrgId, RepositoryId)>, StoreError> {
    let now = db.now();
    db.fetch_all(&DUE, &[now.into(), limit.into()])
}

/// The due deployment of the repository that changed first.
pub fn find_next(
    db: &mut impl StoreRead,
    repository: RepositoryId,
) -> Result<Option<ForgeDeploymentRecord>, StoreError> {
    let now = db.now();
    db.fetch_optional(&NEXT, &[text(repository), now.into()])
}

/// Writes no deployment of the repository until this time.
pub fn pause(tx: &mut Tx<'_>, repository: RepositoryId, until: Timestamp) -> Result<(), StoreError> {
    tx.execute(&PAUSE, &[text(repository), until.into()]).map(drop)
}

/// Why the newest deployment of the repository that could not be written is not written yet.
pub fn find_error(db: &mut impl StoreRead, repository: RepositoryId) -> Result<Option<String>, StoreError> {
    db.fetch_optional(&LAST_ERROR, &[text(repository)])
}

/// Deletes deployments of all organizations that have not changed since this time. Returns their number.
pub fn delete_old(tx: &mut Tx<'_>, before: Timestamp) -> Result<u64, StoreError> {
    tx.execute(&DELETE_OLD, &[before.into()])
}
