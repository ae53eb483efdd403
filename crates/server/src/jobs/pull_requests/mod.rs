//! Acts on pull requests of connected repositories: claims environments for them, deploys their heads, releases the
//! environments, and writes one comment.
//!
//! Webhooks and polling only update records. A turn takes one pull request that is due, reads it from the forge,
//! compares it with its sessions and deployments, and acts. All decisions are made inside transactions, so a turn that
//! is repeated after a crash, or that two servers run at once, acts once.

pub(crate) mod account;
mod act;
pub(crate) mod approval;
mod commands;
mod comment;
mod comment_text;
mod definition_check;
mod failure;
mod forge_reads;
pub(crate) mod linked_accounts;
pub(crate) mod operate;

pub(crate) use failure::{find_open_of_deployment, update_comment_of_deployment};

use std::sync::Arc;

use berth_core::forge::{ForgeConnection, PullRequest, PullRequestStatus};
use berth_core::id::{OrgId, RepositoryId};
use berth_core::repository::Repository;
use berth_core::time::Timestamp;
use berth_engine::Services;
use berth_engine::admission::AdmissionControl;
use berth_engine::limits::PULL_REQUESTS_AT_ONCE;
use berth_store::tables::{
    deployment, forge_connection, pull_request, pull_request_claim, pull_request_command, repository,
};
use berth_store::{StoreRead, TxContext};

use crate::config::AppConfig;
use crate::error::AppError;
use crate::integrations::forges::ForgeClient;
use crate::integrations::forges::client_of;
use crate::worker::{BackgroundJob, TurnResult, wait_for_wakeup};

/// Due pull requests read per query: one for each of up to 64 organizations, more than can be acted on at once.
const DUE_MAX: i64 = 64;
const DUE_SHARE: i64 = 1;
/// How often an open pull request is compared with its forge if no news arrive, in seconds.
const POLL_S: i64 = 5 * 60;
/// After how many seconds a pull request is read by itself, unless a list of open ones has shown it as it is stored. One
/// request for each would use up the forge's rate limit.
const READ_S: i64 = 2 * POLL_S;
/// How often a pull request is looked at while it waits in a queue or its deployment runs, in seconds. The forge is not
/// asked each time.
const WATCH_S: i64 = 3;
/// How often a pull request that uses an environment is looked at otherwise, in seconds: a person may release it.
const SESSION_WATCH_S: i64 = 30;
/// Pause after a failed attempt in seconds. It doubles with every failure, up to [`POLL_S`].
const BACKOFF_S_MIN: i64 = 10;
/// Maximum number of times that the pause doubles.
const BACKOFF_DOUBLINGS_MAX: u32 = 6;
/// Maximum length of a stored error.
const ERROR_CHARS_MAX: usize = 500;

/// Background job that acts on pull requests.
pub(crate) struct PullRequestJob {
    services: Arc<Services>,
    config: Arc<AppConfig>,
    /// Limits each organization to one pull request at a time, so that a hanging forge does not delay other
    /// organizations.
    under_way: AdmissionControl,
}

impl PullRequestJob {
    pub(super) fn new(services: Arc<Services>, config: Arc<AppConfig>) -> Self {
        Self { services, config, under_way: AdmissionControl::without_queue(PULL_REQUESTS_AT_ONCE) }
    }
}

impl BackgroundJob for PullRequestJob {
    const NAME: &'static str = "pull requests";
    const LANES: usize = PULL_REQUESTS_AT_ONCE.total;

    async fn turn(&self) -> Result<TurnResult, AppError> {
        if reconcile_next(self).await? || forge_reads::list_next(self).await? {
            return Ok(TurnResult::Again);
        }
        Ok(TurnResult::Idle)
    }

    async fn wait(&self) {
        wait_for_wakeup(&self.services.pull_requests_wanted).await;
    }
}

/// A pull request that is being acted on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PullRequestKey {
    pub(crate) org: OrgId,
    pub(crate) repository: RepositoryId,
    pub(crate) number: i64,
}

/// Acts on the pull request that has been due the longest, from an organization for which none is being acted on.
/// Returns `false` if there is none.
async fn reconcile_next(job: &PullRequestJob) -> Result<bool, AppError> {
    let due = job.services.store.read(None, |db| {
        let now = db.now();
        Ok::<_, AppError>(pull_request::list_due(db, now, DUE_SHARE, DUE_MAX)?)
    });
    let mut due = due.await?.into_iter();
    let free = due.find_map(|(org, repository, number)| {
        Some((job.under_way.try_enter(org)?, PullRequestKey { org, repository, number }))
    });
    let Some((_pass, key)) = free else { return Ok(false) };
    let Some(begun) = begin(job, key).await? else { return Ok(true) };
    let was_due_at = begun.pull_request.due_at;
    let result = match reconcile(job, key, begun).await {
        Ok(result) => result,
        Err(AppError::Problem(problem)) => ReconcileResult::failed(problem.detail),
        Err(error) => {
            tracing::error!(?error, repository = %key.repository, number = key.number, "cannot act on pull request");
            ReconcileResult::failed("an internal error; the server log has details".to_owned())
        }
    };
    finish(job, key, was_due_at, result).await?;
    Ok(true)
}

/// A pull request of a connected repository.
struct BegunPullRequest {
    pull_request: PullRequest,
    repository: Repository,
    connection: ForgeConnection,
    needs_read: bool,
}

/// Loads a pull request. `None` if its repository is not connected any more; then it is not due until there are news.
async fn begin(job: &PullRequestJob, key: PullRequestKey) -> Result<Option<BegunPullRequest>, AppError> {
    let read = job.services.store.read(Some(key.org), move |db| {
        let oldest = db.now().plus_seconds(-READ_S);
        Ok::<_, AppError>((
            pull_request::by_number(db, key.repository, key.number)?,
            repository::by_id(db, key.repository)?,
            forge_connection::by_repository(db, key.repository)?,
            pull_request::needs_read(db, key.repository, key.number, oldest)?,
        ))
    });
    match read.await? {
        (Some(pull_request), Some(repository), Some(connection), needs_read) => {
            Ok(Some(BegunPullRequest { pull_request, repository, connection, needs_read }))
        }
        _ => {
            let forget = job.services.store.transact(TxContext::system(Some(key.org)), move |tx| {
                let found = pull_request::by_number(tx, key.repository, key.number)?;
                let Some(found) = found else { return Ok(()) };
                Ok::<_, AppError>(pull_request::put(tx, &PullRequest { due_at: None, ..found })?)
            });
            forget.await.map(|()| None)
        }
    }
}

/// The result of a turn.
#[derive(Debug, Default)]
struct ReconcileResult {
    /// What went wrong, in words for people.
    problem: Option<String>,
    /// The comment has to be written, but it was written a moment ago.
    is_comment_pending: bool,
    /// Whether the forge can be asked about the pull request.
    can_read: bool,
}

impl ReconcileResult {
    fn failed(problem: String) -> Self {
        Self { problem: Some(problem), ..Self::default() }
    }
}

/// Reads the pull request from its forge, carries out commands, acts, and writes the comment.
async fn reconcile(
    job: &PullRequestJob,
    key: PullRequestKey,
    begun: BegunPullRequest,
) -> Result<ReconcileResult, AppError> {
    let BegunPullRequest { repository, connection, needs_read, .. } = begun;
    let client = client_of(&job.services, &job.config.forges, key.org, &repository).await?.map(Arc::new);
    if let Some(client) = client.as_ref().filter(|_| needs_read)
        && let Err(problem) = forge_reads::read_pull_request(job, key, client.clone()).await?
    {
        return Ok(ReconcileResult::failed(problem));
    }
    let context = ReconcileContext { key, repository: &repository, connection: &connection, client };
    commands::carry_out_all(job, &context).await?;
    // Failures of the forge and of git are not part of the comment, because they come and go.
    let (mut problem, shown) = match forge_reads::ensure_head(job, &context).await? {
        Ok(()) => {
            let problem = act::act_on_pipelines(job, &context).await?;
            (problem.clone(), problem)
        }
        Err(fetch_failed) => (Some(fetch_failed), None),
    };
    job.services.wake_engine();
    let mut is_comment_pending = false;
    if let Some(client) = &context.client {
        match comment::write_comment(job, &context, client.clone(), shown).await? {
            Ok(write) => is_comment_pending = write == comment::CommentWrite::Later,
            Err(failed) => problem = problem.or(Some(failed)),
        }
        let checked = definition_check::check_definition_change(job, &context, client.clone()).await?;
        problem = problem.or(checked.err());
    }
    Ok(ReconcileResult { problem, is_comment_pending, can_read: context.client.is_some() })
}

/// What a turn knows about a pull request's surroundings.
struct ReconcileContext<'a> {
    key: PullRequestKey,
    repository: &'a Repository,
    connection: &'a ForgeConnection,
    /// `None` if the forge is unknown or the repository has no credential for its API.
    client: Option<Arc<ForgeClient>>,
}

/// The host of a repository's forge, within which the ids of accounts are unique.
pub(crate) fn forge_host(repository: &Repository) -> String {
    repository.url.host().unwrap_or_default().to_ascii_lowercase()
}

/// Stores the result of a turn, and when to act next. News that arrived during the turn keep the pull request due.
async fn finish(
    job: &PullRequestJob,
    key: PullRequestKey,
    was_due_at: Option<Timestamp>,
    result: ReconcileResult,
) -> Result<(), AppError> {
    let done = job.services.store.transact(TxContext::system(Some(key.org)), move |tx| {
        let Some(found) = pull_request::by_number(tx, key.repository, key.number)? else { return Ok(()) };
        let failures = if result.problem.is_some() { found.failures + 1 } else { 0 };
        // A delivery during the turn does not change a time that has passed, but leaves these marks.
        let has_news = failures == 0
            && (!pull_request_command::list_unanswered(tx, key.repository, key.number, 1)?.is_empty()
                || result.can_read
                    && pull_request::needs_read(tx, key.repository, key.number, Timestamp::from_micros(0))?);
        let due_at = if has_news {
            Some(tx.now())
        } else if found.due_at == was_due_at {
            let wait_s = next_wait(tx, &found, failures)?;
            let wait_s = if result.is_comment_pending {
                wait_s.or(Some(WATCH_S)).map(|it| it.min(WATCH_S))
            } else {
                wait_s
            };
            wait_s.map(|seconds| tx.now().plus_seconds(seconds))
        } else {
            found.due_at
        };
        let error = result.problem.map(|text| text.chars().take(ERROR_CHARS_MAX).collect());
        Ok::<_, AppError>(pull_request::put(tx, &PullRequest { failures, error, due_at, ..found })?)
    });
    done.await
}

/// Returns in how many seconds to act again. `None` if nothing is to be done until there are news.
fn next_wait(
    db: &mut impl StoreRead,
    pull_request: &PullRequest,
    failures: i64,
) -> Result<Option<i64>, AppError> {
    if failures > 0 {
        let doublings = u32::try_from(failures - 1).unwrap_or(u32::MAX).min(BACKOFF_DOUBLINGS_MAX);
        return Ok(Some((BACKOFF_S_MIN << doublings).min(POLL_S)));
    }
    let claims = pull_request_claim::list_of(db, pull_request.repository, pull_request.number)?;
    let is_open = pull_request.seen.status == PullRequestStatus::Open;
    let mut wait_s = is_open.then_some(POLL_S);
    for claim in claims.iter().filter(|claim| !claim.is_stopped) {
        let found = claim.deployment.map(|id| deployment::by_id(db, id)).transpose()?.flatten();
        let is_changing = match &found {
            Some(found) => !found.status.is_final() || failure::is_failure_pending(db, found)?,
            None => false,
        };
        if claim.session.is_none() || is_changing {
            return Ok(Some(WATCH_S));
        }
        wait_s = Some(SESSION_WATCH_S);
    }
    Ok(wait_s)
}
