//! What is read from the forge: one pull request, the list of open ones, and head commits of forks.

use std::collections::HashMap;
use std::sync::Arc;

use berth_core::forge::{PullRequest, PullRequestSnapshot, PullRequestStatus};
use berth_core::id::{OrgId, RepositoryId};
use berth_core::name::CommitId;
use berth_engine::git::{GitError, GitRemote, ResolvedCommit};
use berth_store::tables::{forge_connection, pull_request, repository};
use berth_store::{Tx, TxContext};

use super::act::is_trusted;
use super::{PullRequestJob, PullRequestKey, ReconcileContext};
use crate::error::AppError;
use crate::integrations::forges::{ForgeClient, ForgeError, client_of, run_on_thread};

/// How often the open pull requests of a repository are listed, in seconds. It finds those whose webhook was lost.
const LIST_S: i64 = 5 * 60;
/// Connections read per query.
const CONNECTIONS_MAX: i64 = 64;
const CONNECTIONS_SHARE: i64 = 1;
/// Maximum number of stored open pull requests that are compared with the forge's list.
const STORED_MAX: i64 = 1_000;

/// Reads a pull request and stores it. The inner error says why the forge could not be asked.
pub(super) async fn read_pull_request(
    job: &PullRequestJob,
    key: PullRequestKey,
    client: Arc<ForgeClient>,
) -> Result<Result<(), String>, AppError> {
    match run_on_thread(move || client.pull_request(key.number)).await? {
        // It was deleted, or the credential lost access. What deliveries said last still holds.
        Err(ForgeError::NotFound) => {
            let kept = job.services.store.transact(TxContext::system(Some(key.org)), move |tx| {
                Ok::<_, AppError>(pull_request::set_read(tx, key.repository, key.number)?)
            });
            kept.await.map(Ok)
        }
        Err(error) => Ok(Err(error.to_string())),
        Ok(seen) => {
            let stored = job.services.store.transact(TxContext::system(Some(key.org)), move |tx| {
                Ok::<_, AppError>(pull_request::refresh(tx, key.repository, key.number, seen)?)
            });
            stored.await.map(Ok)
        }
    }
}

/// Lists the open pull requests of a repository that is due for it. Returns `false` if there is none.
pub(super) async fn list_next(job: &PullRequestJob) -> Result<bool, AppError> {
    let due = job.services.store.read(None, |db| {
        let before = db.now().plus_seconds(-LIST_S);
        Ok::<_, AppError>(forge_connection::list_due(db, before, CONNECTIONS_SHARE, CONNECTIONS_MAX)?)
    });
    let mut due = due.await?.into_iter();
    let free = due.find_map(|(org, id)| Some((job.under_way.try_enter(org)?, org, id)));
    let Some((_pass, org, id)) = free else { return Ok(false) };
    // Recorded first, so that a forge that fails is not asked again at once.
    let begun = job.services.store.transact(TxContext::system(Some(org)), move |tx| {
        forge_connection::set_listed(tx, id)?;
        Ok::<_, AppError>(repository::by_id(tx, id)?)
    });
    let Some(found) = begun.await? else { return Ok(true) };
    let Some(client) = client_of(&job.services, &job.config.forges, org, &found).await? else {
        return Ok(true);
    };
    match run_on_thread(move || client.open_pull_requests()).await? {
        Ok(open) => store_open(job, org, id, open).await?,
        Err(error) => tracing::info!(repository = %id, %error, "cannot list open pull requests"),
    }
    Ok(true)
}

async fn store_open(
    job: &PullRequestJob,
    org: OrgId,
    id: RepositoryId,
    open: Vec<(i64, PullRequestSnapshot)>,
) -> Result<(), AppError> {
    let stored =
        job.services.store.transact(TxContext::system(Some(org)), move |tx| compare_open(tx, id, open));
    stored.await
}

/// Stores pull requests that are new or differ, and asks about stored ones that are not open any more.
fn compare_open(
    tx: &mut Tx<'_>,
    id: RepositoryId,
    open: Vec<(i64, PullRequestSnapshot)>,
) -> Result<(), AppError> {
    let stored = pull_request::list_open(tx, id, STORED_MAX)?;
    let mut stored: HashMap<i64, PullRequest> = stored.into_iter().map(|it| (it.number, it)).collect();
    for (number, seen) in open {
        let is_known = stored.remove(&number).is_some_and(|it| it.seen == seen);
        if !is_known {
            pull_request::see(tx, id, number, seen)?;
        }
    }
    for number in stored.into_keys() {
        pull_request::request_read(tx, id, number)?;
    }
    Ok(pull_request::set_open_read(tx, id)?)
}

/// Makes sure that the mirror has the head of a fork that may be deployed. Heads of the repository itself arrive with
/// syncs. The inner error says why it could not be fetched.
pub(super) async fn ensure_head(
    job: &PullRequestJob,
    context: &ReconcileContext<'_>,
) -> Result<Result<(), String>, AppError> {
    let key = context.key;
    let read = job.services.store.read(Some(key.org), move |db| {
        Ok::<_, AppError>(pull_request::by_number(db, key.repository, key.number)?)
    });
    let Some(found) = read.await? else { return Ok(Ok(())) };
    let is_needed = found.seen.is_fork && found.seen.status == PullRequestStatus::Open && is_trusted(&found);
    if !is_needed {
        return Ok(Ok(()));
    }
    fetch_head(job, context, &found).await
}

/// Fetches the head of a pull request into the mirror, unless it is there.
pub(super) async fn fetch_head(
    job: &PullRequestJob,
    context: &ReconcileContext<'_>,
    found: &PullRequest,
) -> Result<Result<(), String>, AppError> {
    let (key, head) = (context.key, found.seen.head.clone());
    let Ok(name) = CommitId::parse(&head) else {
        return Ok(Err("the forge reports a head that is not a commit".to_owned()));
    };
    let mirror = job.services.git.mirror(key.org, key.repository);
    let reader = mirror.clone();
    let known = job.services.git.run(key.org, move || reader.resolve(&name)).await?;
    let known = match known {
        Ok(ResolvedCommit::Commit(commit)) => Some(commit),
        _ => None,
    };
    if known.is_some() && !mirror.is_partial() {
        return Ok(Ok(()));
    }
    if known.is_none() && !found.seen.is_fork {
        return Ok(Err("the head commit has not arrived with a sync yet".to_owned()));
    }
    let remote_ref = context.client.as_ref().and_then(|client| client.forge.head_ref(key.number));
    if known.is_none() && remote_ref.is_none() {
        return Ok(Err(
            "this forge does not offer the commits of forks, so they cannot be deployed".to_owned()
        ));
    }
    let credential = match job.services.repository_credential(key.org, context.repository).await? {
        Ok(credential) => credential,
        Err(why) => return Ok(Err(why)),
    };
    let (url, access) = (context.repository.url.clone(), job.config.git_access());
    let fetched = job.services.git.run(key.org, move || {
        let commit = match (known, remote_ref) {
            (None, Some(remote_ref)) => {
                mirror.fetch_pull_request(&url, credential.as_ref(), &access, &remote_ref, key.number)?
            }
            (Some(commit), _) => commit,
            (None, None) => return Err(GitError::Missing("the head is not in the mirror".to_owned())),
        };
        // A checkout of a fork gets no credential, so its content is fetched with the commit.
        let remote = GitRemote { url: &url, credential: credential.as_ref(), access: &access };
        mirror.fetch_missing(&remote, &commit, None)?;
        Ok(commit)
    });
    Ok(match fetched.await? {
        Ok(commit) if commit.as_str() == head => Ok(()),
        Ok(_) => Err("the head moved while it was fetched".to_owned()),
        Err(GitError::Stopping) => Err("the server is stopping".to_owned()),
        Err(error) => Err(error.to_string()),
    })
}
