//! The environments that pull requests use or wait for.

use berth_core::forge::PullRequestClaim;
use berth_core::id::{EnvironmentId, PipelineId, RepositoryId, SessionId};

use crate::error::StoreError;
use crate::sql::value::text;
use crate::sql::{TableRow as _, from_row, statements, table};
use crate::tx::{StoreRead, Tx};

/// Maximum number of claims of one pull request that are read; one per pipeline of the repository.
const CLAIMS_MAX: i64 = 200;

table!(Org PullRequestClaim in pull_request_claims {
    key: [repository: repository_id, number, pipeline: pipeline_id],
    update: [environment: environment_id, ticket: ticket_id, session: session_id, deployment: deployment_id,
        commit: commit_id, is_stopped],
    insert: [created_at],
});

statements! {
    Org Read OF_PULL_REQUEST => PullRequestClaim::TABLE.select(
        "WHERE org_id = $1 AND repository_id = $2 AND number = $3 ORDER BY pipeline_id LIMIT $4");
    Org Read BY_SESSION => PullRequestClaim::TABLE.select("WHERE org_id = $1 AND session_id = $2");
    Org Read LINK_OF_SESSION = "SELECT p.repository_id, p.number, p.title, p.url, p.author_name
        FROM pull_request_claims c JOIN pull_requests p
          ON p.org_id = c.org_id AND p.repository_id = c.repository_id AND p.number = c.number
        WHERE c.org_id = $1 AND c.session_id = $2 LIMIT 1";
    Org Read BY_ENVIRONMENT => PullRequestClaim::TABLE.select(
        "WHERE org_id = $1 AND environment_id = $2 ORDER BY created_at DESC LIMIT $3");
    // Needs no event: the claim, deployment or release that it refers to is recorded.
    Org Upkeep PUT => PullRequestClaim::TABLE.upsert("");
    Org Upkeep DELETE = "DELETE FROM pull_request_claims
        WHERE org_id = $1 AND repository_id = $2 AND number = $3 AND pipeline_id = $4";
}

pub fn list_of(
    db: &mut impl StoreRead,
    repository: RepositoryId,
    number: i64,
) -> Result<Vec<PullRequestClaim>, StoreError> {
    db.fetch_all(&OF_PULL_REQUEST, &[text(repository), number.into(), CLAIMS_MAX.into()])
}

pub fn by_session(
    db: &mut impl StoreRead,
    session: SessionId,
) -> Result<Option<PullRequestClaim>, StoreError> {
    db.fetch_optional(&BY_SESSION, &[text(session)])
}

/// The pull request that a session belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionPullRequest {
    pub repository: RepositoryId,
    pub number: i64,
    pub title: String,
    pub url: String,
    /// Name of the author on the forge.
    pub author: String,
}
from_row!(SessionPullRequest { repository, number, title, url, author });

pub fn find_pull_request(
    db: &mut impl StoreRead,
    session: SessionId,
) -> Result<Option<SessionPullRequest>, StoreError> {
    db.fetch_optional(&LINK_OF_SESSION, &[text(session)])
}

/// The claims for an environment, newest first.
pub fn list_of_environment(
    db: &mut impl StoreRead,
    environment: EnvironmentId,
    limit: i64,
) -> Result<Vec<PullRequestClaim>, StoreError> {
    db.fetch_all(&BY_ENVIRONMENT, &[text(environment), limit.into()])
}

pub fn put(tx: &mut Tx<'_>, claim: &PullRequestClaim) -> Result<(), StoreError> {
    tx.put(&PUT, claim)
}

pub fn delete(
    tx: &mut Tx<'_>,
    repository: RepositoryId,
    number: i64,
    pipeline: PipelineId,
) -> Result<(), StoreError> {
    tx.execute(&DELETE, &[text(repository), number.into(), text(pipeline)]).map(drop)
}
