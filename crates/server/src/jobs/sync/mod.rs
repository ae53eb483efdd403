//! Syncs repositories that are due: fetches them and turns their content into pipelines and deployments.
//!
//! A sync reads everything from the mirror first, then handles each pipeline in a separate transaction. Syncing is
//! idempotent.

mod account_grants;
mod apply;
mod find;

pub(crate) use account_grants::grant_pipelines;

use std::collections::HashSet;
use std::sync::Arc;

use berth_core::event::EventKind;
use berth_core::id::OrgId;
use berth_core::repository::{Repository, RepositorySyncState, SyncProblem};
use berth_core::time::Timestamp;
use berth_engine::admission::AdmissionControl;
use berth_engine::events::repository_event;
use berth_engine::git::{BranchHeads, CommitHash, GitError, GitMirror, GitRemote};
use berth_engine::limits::SYNCS_AT_ONCE;
use berth_store::TxContext;
use berth_store::tables::repository;

use crate::config::AppConfig;
use crate::error::AppError;
use crate::worker::{BackgroundJob, TurnResult, wait_for_wakeup};
use berth_engine::Services;

/// Due repositories read per query: one for each of up to 64 organizations, more than can sync at once.
const DUE_MAX: i64 = 64;

/// Maximum number of pipelines read per repository, including retired ones.
const PIPELINES_MAX: i64 = 2_000;

/// Checks the pipeline definitions in a commit, and returns their problems in words for people.
pub(super) fn find_definitions(mirror: &GitMirror, commit: &CommitHash) -> Result<Vec<String>, GitError> {
    let found = find::read_definitions(mirror, commit)?;
    Ok(found.problems.into_iter().map(|it| format!("{}: {}", it.path, it.message)).collect())
}

/// Background job that syncs repositories.
pub(crate) struct SyncJob {
    services: Arc<Services>,
    config: Arc<AppConfig>,
    /// Limits each organization to one sync at a time, so that hanging repositories do not delay other organizations.
    under_way: AdmissionControl,
}

impl SyncJob {
    pub(super) fn new(services: Arc<Services>, config: Arc<AppConfig>) -> Self {
        Self { services, config, under_way: AdmissionControl::without_queue(SYNCS_AT_ONCE) }
    }
}

impl BackgroundJob for SyncJob {
    const NAME: &'static str = "sync repositories";
    const LANES: usize = SYNCS_AT_ONCE.total;

    async fn resume(&self) -> Result<(), AppError> {
        if let Ok(Err(error)) = tokio::task::spawn_blocking(berth_engine::git::check_git).await {
            tracing::warn!(%error, "git check failed; repositories cannot be fetched");
        }
        Ok(())
    }

    async fn turn(&self) -> Result<TurnResult, AppError> {
        run_next(self).await
    }

    async fn wait(&self) {
        wait_for_wakeup(&self.services.sync_wanted).await;
    }
}

/// Syncs the repository that has been due the longest, from an organization that has no sync in progress. Returns
/// `Idle` if there is none.
async fn run_next(syncs: &SyncJob) -> Result<TurnResult, AppError> {
    let due = syncs.services.store.read(None, |db| {
        let now = db.now();
        Ok::<_, AppError>(repository::list_due(db, now, DUE_MAX)?)
    });
    let mut due = due.await?.into_iter();
    let free = due.find_map(|(org, id)| Some((syncs.under_way.try_enter(org)?, org, id)));
    let Some((_pass, org, id)) = free else { return Ok(TurnResult::Idle) };
    let found =
        syncs.services.store.read(Some(org), move |db| Ok::<_, AppError>(repository::by_id(db, id)?)).await?;
    if let Some(found) = found {
        sync_repository(syncs, org, found).await?;
        // A new head may have started a deployment, or the fetch may have provided a commit that a deployment waits
        // for.
        syncs.services.wake_engine();
    }
    Ok(TurnResult::Again)
}

async fn sync_repository(syncs: &SyncJob, org: OrgId, before: Repository) -> Result<(), AppError> {
    // Pushes after this time may be missing from the result.
    let began = syncs.services.store.read(None, |db| Ok::<_, AppError>(db.now())).await?;
    match fetch(syncs, org, &before).await? {
        Ok(heads) => {
            let (problems, has_changed) = match find_and_apply(syncs, org, &before, &heads).await {
                Ok(found) => found,
                Err(error) => {
                    tracing::error!(?error, repository = %before.id, "cannot apply repository content");
                    let text = "its content could not be used; the server log says why".to_owned();
                    return fail(syncs, org, before, text).await;
                }
            };
            let head = heads.head().map(ToString::to_string);
            let default_branch = heads.default_branch;
            finish(syncs, org, before, SyncResult { began, default_branch, head, problems, has_changed })
                .await
        }
        // The server is stopping. The next start repeats the sync.
        Err(GitError::Stopping) => Ok(()),
        Err(error) => {
            tracing::info!(repository = %before.id, %error, "cannot fetch repository");
            // It may have been revoked.
            syncs.services.discard_app_token(before.id);
            fail(syncs, org, before, error.to_string()).await
        }
    }
}

async fn fetch(
    syncs: &SyncJob,
    org: OrgId,
    repository: &Repository,
) -> Result<Result<BranchHeads, GitError>, AppError> {
    let credential = match syncs.services.repository_credential(org, repository).await? {
        Ok(credential) => credential,
        Err(why) => return Ok(Err(GitError::Refused(why))),
    };
    let mirror = syncs.services.git.mirror(org, repository.id).with_partial(repository.is_partial);
    let (url, access) = (repository.url.clone(), syncs.config.git_access());
    let synced = syncs.services.git.run(org, move || {
        let heads = mirror.sync(&url, credential.as_ref(), &access)?;
        if let Some(head) = heads.head() {
            let remote = GitRemote { url: &url, credential: credential.as_ref(), access: &access };
            mirror.fetch_missing(&remote, head, Some(find::FOLDER))?;
        }
        Ok(heads)
    });
    Ok(synced.await?)
}

/// Finds the definitions and applies them. Returns the problems found, and whether anything changed.
async fn find_and_apply(
    syncs: &SyncJob,
    org: OrgId,
    repository: &Repository,
    heads: &BranchHeads,
) -> Result<(Vec<SyncProblem>, bool), AppError> {
    let mirror = syncs.services.git.mirror(org, repository.id);
    // Skip reading the files if the head has not moved and there are no problems. Problems may disappear without a
    // push, so files with problems are read every time.
    let is_known = repository.seen.head.as_deref() == heads.head().map(CommitHash::as_str)
        && repository.seen.problems.is_empty()
        && repository.seen.synced_at.is_some();
    let (mut problems, mut has_changed) = (Vec::new(), false);
    let mut broken = HashSet::new();
    if heads.head().is_none() && !heads.branches.is_empty() {
        // The default branch may be missing temporarily during a rename, so no pipeline is retired.
        let text = "the repository has no default branch; nothing was changed";
        problems.push(find::sync_problem(".", text.to_owned()));
    } else if !is_known {
        let (reader, head) = (mirror.clone(), heads.default_branch.clone().zip(heads.head().cloned()));
        let found =
            syncs.services.git.run(org, move || find::find_definitions(&reader, head.as_ref())).await?;
        let found = found.map_err(|error| AppError::bug(format!("a mirror cannot be read: {error}")))?;
        let applied = apply::apply_definitions(syncs, org, repository.id, found).await?;
        (problems, has_changed, broken) = (applied.problems, applied.has_changed, applied.broken);
    }
    has_changed |= apply::apply_heads(syncs, org, repository.id, &mirror, heads, &broken).await?;
    Ok((problems, has_changed))
}

struct SyncResult {
    began: Timestamp,
    default_branch: Option<String>,
    head: Option<String>,
    problems: Vec<SyncProblem>,
    has_changed: bool,
}

async fn finish(syncs: &SyncJob, org: OrgId, before: Repository, found: SyncResult) -> Result<(), AppError> {
    syncs
        .services
        .store
        .transact(TxContext::system(Some(org)), move |tx| {
            let Some(now) = repository::by_id(tx, before.id)? else { return Ok(()) };
            // The repository's URL was changed during the sync, so the result belongs to the old URL.
            if now.url != before.url {
                return Ok(());
            }
            let is_news = found.has_changed
                || now.seen.error.is_some()
                || now.seen.synced_at.is_none()
                || now.seen.head != found.head
                || now.seen.default_branch != found.default_branch
                || now.seen.problems != found.problems;
            let event = repository_event(EventKind::RepositorySynced, &now)
                .with_some("head", found.head.as_ref())
                .with("problems", found.problems.len());
            let seen = RepositorySyncState {
                default_branch: found.default_branch,
                head: found.head,
                synced_at: Some(found.began),
                error: None,
                failures: 0,
                problems: found.problems,
                due_at: due_at(&before, &now, 0, tx.now()),
            };
            repository::put_sync_result(tx, now.id, &seen)?;
            account_grants::update_account_grants(tx, now.id)?;
            if is_news {
                tx.record(event)?;
            }
            Ok(())
        })
        .await
}

async fn fail(syncs: &SyncJob, org: OrgId, before: Repository, error: String) -> Result<(), AppError> {
    syncs
        .services
        .store
        .transact(TxContext::system(Some(org)), move |tx| {
            let Some(now) = repository::by_id(tx, before.id)? else { return Ok(()) };
            if now.url != before.url {
                return Ok(());
            }
            let failures = now.seen.failures + 1;
            let due_at = due_at(&before, &now, failures, tx.now());
            let seen =
                RepositorySyncState { error: Some(error.clone()), failures, due_at, ..now.seen.clone() };
            repository::put_sync_result(tx, now.id, &seen)?;
            if now.seen.error.is_none() {
                tx.record(repository_event(EventKind::RepositorySynced, &now).with("error", error))?;
            }
            Ok(())
        })
        .await
}

/// Returns when to sync again. If a sync was requested during this one, its time is used.
fn due_at(before: &Repository, now: &Repository, failures: i64, time: Timestamp) -> Option<Timestamp> {
    if now.seen.due_at == before.seen.due_at {
        Some(now.next_sync_at(failures, time))
    } else {
        now.seen.due_at
    }
}
