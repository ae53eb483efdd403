//! Sync: repositories that are due are fetched, and what is found there becomes pipelines and deployments.
//!
//! A sync reads the mirror first and decides about each pipeline in a transaction of its own. Done twice it changes
//! nothing the second time.

mod apply;
mod find;

use std::collections::HashSet;
use std::sync::Arc;

use berth_core::event::EventKind;
use berth_core::id::{OrgId, SecretId};
use berth_core::pipeline::grammar::SecretName;
use berth_core::repository::{Repository, Seen, SyncProblem};
use berth_core::secret::{Scope, Secret};
use berth_core::time::Timestamp;
use berth_store::Context;
use berth_store::query::repositories;
use berth_store::records::{repository, secret};
use quick_cache::sync::Cache;
use tokio::sync::Notify;

use super::LOOK_EVERY;
use crate::app::{App, about_repository};
use crate::credential::Redacted;
use crate::error::AppError;
use crate::gate::Gate;
use crate::git::{Credential, GitError, Heads};
use crate::limits::SYNCS_AT_ONCE;

/// Looked up at once: one of each organization, of more organizations than are synced at once.
const DUE_MAX: i64 = 64;
/// Syncs in one turn of the crank.
const TURN_MAX: usize = 1_000;
/// Credentials in the cache.
const CREDENTIALS_KNOWN_MAX: usize = 4_096;

/// What is known about syncs in this process.
pub(crate) struct Syncs {
    /// One at a time for each organization: its repositories that hang hold up those of no other one.
    under_way: Gate,
    /// Values of credentials by secret and version: every reading is an event, and a poll a minute would bury the others.
    credentials: Cache<SecretId, (i64, Redacted)>,
    asked: Notify,
}

impl Default for Syncs {
    fn default() -> Self {
        let under_way = Gate::without_queue(SYNCS_AT_ONCE);
        Self { under_way, credentials: Cache::new(CREDENTIALS_KNOWN_MAX), asked: Notify::new() }
    }
}

impl Syncs {
    /// Somebody wants a sync now.
    pub(crate) fn nudge(&self) {
        self.asked.notify_one();
    }
}

/// Lanes beside one another: one that hangs holds up its own alone.
pub(super) async fn syncs(app: Arc<App>) {
    if let Ok(Err(error)) = tokio::task::spawn_blocking(crate::git::check).await {
        tracing::warn!(%error, "repositories cannot be read");
    }
    let lanes = (0..SYNCS_AT_ONCE.total).map(|_| lane(&app));
    let stopping = async {
        app.shutdown.cancelled().await;
        app.git.stop();
    };
    tokio::join!(futures_util::future::join_all(lanes), stopping);
}

async fn lane(app: &App) {
    while !app.shutdown.is_cancelled() {
        let pause = match next(app).await {
            Ok(true) => continue,
            Ok(false) => LOOK_EVERY,
            Err(error) => {
                tracing::warn!(?error, "a repository could not be synced; it is tried again in a second");
                LOOK_EVERY
            }
        };
        let nudged = tokio::time::timeout(pause, app.syncs.asked.notified());
        app.shutdown.run_until_cancelled(nudged).await;
    }
}

/// Everything that is due.
pub(super) async fn all(app: &App) -> Result<(), AppError> {
    for _ in 0..TURN_MAX {
        if !next(app).await? {
            break;
        }
    }
    Ok(())
}

/// Syncs the repository that has been due for longest, of an organization of which none is under way. `false`: there
/// is none.
async fn next(app: &App) -> Result<bool, AppError> {
    let due = app.store.read(None, |db| {
        let now = db.now();
        Ok::<_, AppError>(repositories::due(db, now, DUE_MAX)?)
    });
    let mut due = due.await?.into_iter();
    let free = due.find_map(|(org, id)| Some((app.syncs.under_way.try_enter(org)?, org, id)));
    let Some((_pass, org, id)) = free else { return Ok(false) };
    let found = app.store.read(Some(org), move |db| Ok::<_, AppError>(repository::by_id(db, id)?)).await?;
    if let Some(found) = found {
        sync(app, org, found).await?;
        // A new head may have started a deployment, and one may have waited for its commit.
        app.nudge();
    }
    Ok(true)
}

async fn sync(app: &App, org: OrgId, before: Repository) -> Result<(), AppError> {
    // What is pushed from here on may be missing in what is found.
    let began = app.store.read(None, |db| Ok::<_, AppError>(db.now())).await?;
    match fetch(app, org, &before).await? {
        Ok(heads) => {
            let (problems, has_changed) = match find_and_apply(app, org, &before, &heads).await {
                Ok(found) => found,
                Err(error) => {
                    tracing::error!(?error, repository = %before.id, "what is in a repository could not be used");
                    let text = "what is in it could not be used; the server's log says why".to_owned();
                    return fail(app, org, before, text).await;
                }
            };
            let head = heads.head().map(ToString::to_string);
            let default_branch = heads.default_branch;
            finish(app, org, before, Found { began, default_branch, head, problems, has_changed }).await
        }
        // The next start goes on.
        Err(GitError::Stopping) => Ok(()),
        Err(error) => {
            tracing::info!(repository = %before.id, %error, "a repository could not be read");
            fail(app, org, before, error.to_string()).await
        }
    }
}

async fn fetch(app: &App, org: OrgId, repository: &Repository) -> Result<Result<Heads, GitError>, AppError> {
    let credential = match credential(app, org, repository.credential.clone()).await? {
        Ok(credential) => credential,
        Err(why) => return Ok(Err(GitError::Refused(why))),
    };
    let (mirror, access) = (app.git.mirror(org, repository.id), app.config.git_access());
    let url = repository.url.clone();
    app.git.run(org, move || mirror.sync(&url, credential.as_ref(), &access)).await
}

/// The value of a secret that a repository is read with. `Ok(Err)` is for people.
pub(crate) async fn credential(
    app: &App,
    org: OrgId,
    name: Option<SecretName>,
) -> Result<Result<Option<Credential>, String>, AppError> {
    let Some(name) = name else { return Ok(Ok(None)) };
    let wanted = name.clone();
    let found: Option<Secret> = app
        .store
        .read(Some(org), move |db| Ok::<_, AppError>(secret::by_name(db, &wanted, &Scope::Organization)?))
        .await?;
    let Some(found) = found else { return Ok(Err(format!("there is no secret {name} any more"))) };
    let (id, version) = (found.id, found.version);
    let value = match app.syncs.credentials.get(&id).filter(|(kept, _)| *kept == version) {
        Some((_, value)) => value,
        None => {
            let vault = app.vault.clone();
            let read = app.store.transact(Context::system(Some(org)), move |tx| {
                Ok::<_, AppError>(vault.reveal(tx, &found, found.version)?)
            });
            let value = read.await?;
            app.syncs.credentials.insert(id, (version, value.clone()));
            value
        }
    };
    Ok(Ok(Some(Credential::new(value))))
}

/// What is wrong in the repository, and whether anything changed because of it.
async fn find_and_apply(
    app: &App,
    org: OrgId,
    repository: &Repository,
    heads: &Heads,
) -> Result<(Vec<SyncProblem>, bool), AppError> {
    let mirror = app.git.mirror(org, repository.id);
    // Files are read when the head moved, and as long as something about them is wrong: that may end without a push.
    let is_known = repository.seen.head.as_deref() == heads.head().map(crate::git::Sha::as_str)
        && repository.seen.problems.is_empty()
        && repository.seen.synced_at.is_some();
    let (mut problems, mut has_changed) = (Vec::new(), false);
    let mut broken = HashSet::new();
    if heads.head().is_none() && !heads.branches.is_empty() {
        // A rebase under way, a branch that was renamed: nobody has removed anything.
        let text = "the repository does not say which branch is its default one; nothing was changed";
        problems.push(find::problem(".", text.to_owned()));
    } else if !is_known {
        let (reader, head) = (mirror.clone(), heads.head().cloned());
        let found = app.git.run(org, move || find::definitions(&reader, head.as_ref())).await?;
        let found = found.map_err(|error| AppError::bug(format!("a mirror cannot be read: {error}")))?;
        let applied = apply::definitions(app, org, repository.id, found).await?;
        (problems, has_changed, broken) = (applied.problems, applied.has_changed, applied.broken);
    }
    has_changed |= apply::heads(app, org, repository.id, &mirror, heads, &broken).await?;
    Ok((problems, has_changed))
}

struct Found {
    began: Timestamp,
    default_branch: Option<String>,
    head: Option<String>,
    problems: Vec<SyncProblem>,
    has_changed: bool,
}

async fn finish(app: &App, org: OrgId, before: Repository, found: Found) -> Result<(), AppError> {
    app.store
        .transact(Context::system(Some(org)), move |tx| {
            let Some(now) = repository::by_id(tx, before.id)? else { return Ok(()) };
            // Somebody gave it another address meanwhile: what was found is of the old one.
            if now.url != before.url {
                return Ok(());
            }
            let is_news = found.has_changed
                || now.seen.error.is_some()
                || now.seen.synced_at.is_none()
                || now.seen.head != found.head
                || now.seen.default_branch != found.default_branch
                || now.seen.problems != found.problems;
            let event = about_repository(EventKind::RepositorySynced, &now)
                .with_some("head", found.head.as_ref())
                .with("problems", found.problems.len());
            let seen = Seen {
                default_branch: found.default_branch,
                head: found.head,
                synced_at: Some(found.began),
                error: None,
                failures: 0,
                problems: found.problems,
                due_at: due_at(&before, &now, 0, tx.now()),
            };
            repository::saw(tx, now.id, &seen)?;
            if is_news {
                tx.record(event)?;
            }
            Ok(())
        })
        .await
}

async fn fail(app: &App, org: OrgId, before: Repository, error: String) -> Result<(), AppError> {
    app.store
        .transact(Context::system(Some(org)), move |tx| {
            let Some(now) = repository::by_id(tx, before.id)? else { return Ok(()) };
            if now.url != before.url {
                return Ok(());
            }
            let failures = now.seen.failures + 1;
            let due_at = due_at(&before, &now, failures, tx.now());
            let seen = Seen { error: Some(error.clone()), failures, due_at, ..now.seen.clone() };
            repository::saw(tx, now.id, &seen)?;
            if now.seen.error.is_none() {
                tx.record(about_repository(EventKind::RepositorySynced, &now).with("error", error))?;
            }
            Ok(())
        })
        .await
}

/// Whoever asked for a sync while one was under way gets another.
fn due_at(before: &Repository, now: &Repository, failures: i64, time: Timestamp) -> Option<Timestamp> {
    if now.seen.due_at == before.seen.due_at { Some(now.next_look(failures, time)) } else { now.seen.due_at }
}
