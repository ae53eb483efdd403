//! Commits that were resolved for deployments, as they are described to people. They can be read again from the
//! repository, so storing them records no event.

use std::collections::HashMap;

use berth_core::id::{ApprovalId, DeploymentId, EnvironmentId, RepositoryId};
use berth_core::repository::RemoteUrl;
use berth_core::time::Timestamp;

use crate::error::StoreError;
use crate::sql::value::to_json;
use crate::sql::{SqlText, TableRow as _, from_row, sql, statements, table};
use crate::tx::{StoreRead, Tx};

/// A commit of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitRecord {
    pub repository: RepositoryId,
    /// The full hash.
    pub commit: String,
    pub title: String,
    /// Name of the author, without an address.
    pub author: String,
    pub authored_at: Timestamp,
}

table!(Org CommitRecord in commits {
    key: [commit: commit_id, repository: repository_id],
    update: [title, author, authored_at],
});

/// The commit of a deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeployedCommit {
    pub record: CommitRecord,
    /// URL of its repository.
    pub url: RemoteUrl,
    /// The full hash of the commit that was deployed there before. `None` if there was none, or it was not loaded.
    pub base: Option<String>,
}

from_row!(DeployedCommit { record, url, base });

/// The commit that the target of deployment `d` had before: for an environment, its previous successful deployment; for
/// stages, the last success in the last stage of the pipeline, as of the end of `d`.
const BASE: &str = "CASE WHEN d.environment_id IS NOT NULL THEN
      (SELECT b.resolved_commit FROM deployments b WHERE b.org_id = d.org_id AND b.environment_id = d.environment_id
        AND b.number < d.number AND b.status = 'succeeded' ORDER BY b.number DESC LIMIT 1)
    ELSE (SELECT b.resolved_commit FROM stage_ends e
        JOIN deployments b ON b.org_id = e.org_id AND b.id = e.deployment_id
        WHERE e.org_id = d.org_id AND e.pipeline_id = d.pipeline_id AND e.is_last = 1 AND e.is_success = 1
        AND e.deployment_id <> d.id AND e.ended_at <= COALESCE(d.finished_at, CAST(9223372036854775807 AS BIGINT))
        ORDER BY e.ended_at DESC LIMIT 1) END";

/// Selects commits of deployments `d`. `id` is the column by which the result is keyed. A commit may be in several
/// repositories of the organization; the one of the pipeline comes last.
const fn select(id: &str, base: &str, from: &str) -> SqlText {
    let text = sql("SELECT ").then(id).then(", ").columns(&CommitRecord::TABLE, "c").then(", r.url, ");
    text.then(base)
        .then(" FROM ")
        .then(from)
        .then(
            " JOIN commits c ON c.org_id = d.org_id AND c.commit_id = d.resolved_commit
            JOIN repositories r ON r.org_id = c.org_id AND r.id = c.repository_id
            JOIN pipelines p ON p.org_id = d.org_id AND p.id = d.pipeline_id WHERE d.org_id = $1 AND ",
        )
        .then(id)
        .then(
            " IN (SELECT value FROM {json_elements}(CAST($2 AS TEXT){as_jsonb}))
            ORDER BY CASE WHEN c.repository_id = p.repository_id THEN 1 ELSE 0 END, c.repository_id",
        )
}

statements! {
    Org Upkeep PUT => CommitRecord::TABLE.upsert("");
    Org Read OF_DEPLOYMENTS => select("d.id", "CAST(NULL AS TEXT)", "deployments d");
    Org Read WITH_BASES => select("d.id", BASE, "deployments d");
    Org Read OF_ENVIRONMENTS => select("n.id", "CAST(NULL AS TEXT)", "environments n JOIN deployments d
        ON d.org_id = n.org_id AND d.id = (SELECT b.id FROM deployments b WHERE b.org_id = n.org_id
            AND b.environment_id = n.id AND b.status = 'succeeded' ORDER BY b.number DESC LIMIT 1)");
    // The deployment that each approval's stage had, until the approval ended. For the build, which all stages share,
    // the one that the last stage had.
    Org Read BASES_OF_APPROVALS = "SELECT a.id, b.id, b.resolved_commit FROM approvals a
        JOIN deployments d ON d.org_id = a.org_id AND d.id = a.deployment_id
        JOIN deployments b ON b.org_id = a.org_id AND b.id = CASE WHEN d.environment_id IS NOT NULL THEN
            (SELECT s.id FROM deployments s WHERE s.org_id = d.org_id AND s.environment_id = d.environment_id
              AND s.number < d.number AND s.status = 'succeeded' ORDER BY s.number DESC LIMIT 1)
          WHEN a.stage = 'build' THEN (SELECT e.deployment_id FROM stage_ends e WHERE e.org_id = a.org_id
              AND e.pipeline_id = a.pipeline_id AND e.is_last = 1 AND e.is_success = 1
              AND e.deployment_id <> a.deployment_id AND e.ended_at <= COALESCE(a.ended_at, CAST(9223372036854775807 AS BIGINT))
              ORDER BY e.ended_at DESC LIMIT 1)
          ELSE (SELECT e.deployment_id FROM stage_ends e WHERE e.org_id = a.org_id AND e.pipeline_id = a.pipeline_id
              AND e.stage = a.stage AND e.is_success = 1 AND e.deployment_id <> a.deployment_id
              AND e.ended_at <= COALESCE(a.ended_at, CAST(9223372036854775807 AS BIGINT)) ORDER BY e.ended_at DESC LIMIT 1) END
        WHERE a.org_id = $1 AND a.id IN (SELECT value FROM {json_elements}(CAST($2 AS TEXT){as_jsonb}))";
}

/// What was deployed to the target of an approval before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalBase {
    pub deployment: DeploymentId,
    /// The full hash of its commit, if it was resolved.
    pub commit: Option<String>,
}

from_row!(ApprovalBase { deployment, commit });

/// Stores a commit. Every deployment of a commit stores it again, with the same values.
pub fn put(tx: &mut Tx<'_>, commit: &CommitRecord) -> Result<(), StoreError> {
    tx.put(&PUT, commit)
}

/// The commits of deployments, in one statement. Contains only deployments whose commits were resolved and stored.
pub fn list_of_deployments(
    db: &mut impl StoreRead,
    deployments: &[DeploymentId],
) -> Result<HashMap<DeploymentId, DeployedCommit>, StoreError> {
    if deployments.is_empty() {
        return Ok(HashMap::new());
    }
    let found: Vec<(_, _)> = db.fetch_all(&OF_DEPLOYMENTS, &[to_json(&deployments)?.into()])?;
    Ok(found.into_iter().collect())
}

/// Like [`list_of_deployments`], with what was deployed before.
pub fn list_with_bases(
    db: &mut impl StoreRead,
    deployments: &[DeploymentId],
) -> Result<HashMap<DeploymentId, DeployedCommit>, StoreError> {
    if deployments.is_empty() {
        return Ok(HashMap::new());
    }
    let found: Vec<(_, _)> = db.fetch_all(&WITH_BASES, &[to_json(&deployments)?.into()])?;
    Ok(found.into_iter().collect())
}

/// The commits of the last successful deployments to environments, in one statement.
pub fn list_of_environments(
    db: &mut impl StoreRead,
    environments: &[EnvironmentId],
) -> Result<HashMap<EnvironmentId, DeployedCommit>, StoreError> {
    if environments.is_empty() {
        return Ok(HashMap::new());
    }
    let found: Vec<(_, _)> = db.fetch_all(&OF_ENVIRONMENTS, &[to_json(&environments)?.into()])?;
    Ok(found.into_iter().collect())
}

/// What is deployed in the targets of approvals, or was until they ended, in one statement.
pub fn list_approval_bases(
    db: &mut impl StoreRead,
    approvals: &[ApprovalId],
) -> Result<HashMap<ApprovalId, ApprovalBase>, StoreError> {
    if approvals.is_empty() {
        return Ok(HashMap::new());
    }
    let found: Vec<(_, _)> = db.fetch_all(&BASES_OF_APPROVALS, &[to_json(&approvals)?.into()])?;
    Ok(found.into_iter().collect())
}
