//! Polls a step registry: resolves its ref to a commit and checks whether that commit is already built.

use std::sync::Arc;

use berth_core::event::EventKind;
use berth_core::id::OrgId;
use berth_core::registry::{Registry, RegistryStatus, RegistrySyncState};
use berth_core::time::Timestamp;
use berth_engine::events::registry_event;
use berth_engine::git::{BranchHeads, CommitHash, GitError, GitMirror, ResolvedCommit, ambiguous_message};
use berth_store::tables::{registry, registry_build};
use berth_store::{StoreError, Tx, TxContext};

use super::RegistryJob;
use super::build::{self, RegistryCommit};
use super::builder::RegistryBuilder;
use crate::error::AppError;

/// Polls a registry, and builds its commit if necessary. Returns `false` if the server is stopping.
pub(super) async fn poll_registry(
    registries: &RegistryJob,
    org: OrgId,
    before: Registry,
    builder: Arc<dyn RegistryBuilder>,
) -> Result<bool, AppError> {
    let began = registries.services.store.read(None, |db| Ok::<_, AppError>(db.now())).await?;
    let commit = match fetch(registries, org, &before).await? {
        Ok(commit) => commit,
        Err(GitError::Stopping) => return Ok(false),
        Err(error) => {
            tracing::info!(registry = %before.id, %error, "cannot fetch registry");
            fail(registries, org, before, error.to_string()).await?;
            return Ok(true);
        }
    };
    let (id, sha) = (before.id, commit.sha.to_string());
    let known = registries
        .services
        .store
        .read(Some(org), move |db| Ok::<_, AppError>(registry_build::find_version(db, id, &sha)?.is_some()))
        .await?;
    if known {
        record_built(registries, org, before, commit, began).await?;
        return Ok(true);
    }
    if before.seen.failed_commit.as_deref() == Some(commit.sha.as_str()) {
        record_unchanged(registries, org, before, began).await?;
        return Ok(true);
    }
    build::build(registries, org, before, commit, builder).await
}

/// Fetches the registry and resolves its commit, with the branch and tags of that commit.
async fn fetch(
    registries: &RegistryJob,
    org: OrgId,
    of: &Registry,
) -> Result<Result<RegistryCommit, GitError>, AppError> {
    let credential = match registries.services.git_credential(org, of.credential.clone()).await? {
        Ok(credential) => credential,
        Err(why) => return Ok(Err(GitError::Refused(why))),
    };
    let (mirror, access) =
        (registries.services.git.registry_mirror(org, of.id), registries.config.git_access());
    let (url, reference) = (of.url.clone(), of.reference.clone());
    let fetched = registries.services.git.run(org, move || {
        let heads = mirror.sync(&url, credential.as_ref(), &access)?;
        let sha = match &reference {
            None => heads.head().cloned().ok_or_else(|| no_default_branch_error(&heads))?,
            Some(meant) => match mirror.resolve(meant)? {
                ResolvedCommit::Commit(sha) => sha,
                ResolvedCommit::Several(commits) => {
                    return Err(GitError::Refused(ambiguous_message(meant, &commits)));
                }
                ResolvedCommit::Nothing => {
                    let text = format!("the repository has no branch, tag or commit \"{meant}\"");
                    return Err(GitError::Refused(text));
                }
            },
        };
        resolve_names(&mirror, &heads, reference.map(|it| it.to_string()), sha)
    });
    Ok(fetched.await?)
}

fn no_default_branch_error(heads: &BranchHeads) -> GitError {
    GitError::Refused(if heads.branches.is_empty() {
        "the repository is empty".into()
    } else {
        "the repository has no default branch; give the registry a ref".into()
    })
}

fn resolve_names(
    mirror: &GitMirror,
    heads: &BranchHeads,
    reference: Option<String>,
    sha: CommitHash,
) -> Result<RegistryCommit, GitError> {
    let branch = reference.or_else(|| heads.default_branch.clone());
    let branch = branch.filter(|name| heads.branches.get(name) == Some(&sha));
    Ok(RegistryCommit { tags: mirror.tags_at(&sha)?, branch, sha })
}

/// Records that the ref's commit is already built.
async fn record_built(
    registries: &RegistryJob,
    org: OrgId,
    before: Registry,
    commit: RegistryCommit,
    began: Timestamp,
) -> Result<(), AppError> {
    registries
        .services
        .store
        .transact(TxContext::system(Some(org)), move |tx| {
            let Some(now) = reload_unchanged(tx, &before)? else { return Ok(()) };
            commit.put_refs(tx, now.id)?;
            let sha = Some(commit.sha.to_string());
            let is_news = now.seen.current != sha || now.seen.status != RegistryStatus::Ready;
            let seen = RegistrySyncState {
                status: RegistryStatus::Ready,
                commit: sha.clone(),
                current: sha.clone(),
                failed_commit: None,
                synced_at: Some(began),
                error: None,
                failures: 0,
                due_at: due_at(&before, &now, 0, tx.now()),
            };
            registry::put_poll_result(tx, now.id, &seen)?;
            if is_news {
                tx.record(registry_event(EventKind::RegistrySynced, &now).with_some("commit", sha))?;
            }
            Ok(())
        })
        .await
}

/// Records that nothing changed: the build of this commit failed before, and no new build was requested.
async fn record_unchanged(
    registries: &RegistryJob,
    org: OrgId,
    before: Registry,
    began: Timestamp,
) -> Result<(), AppError> {
    registries
        .services
        .store
        .transact(TxContext::system(Some(org)), move |tx| {
            let Some(now) = reload_unchanged(tx, &before)? else { return Ok(()) };
            let due_at = due_at(&before, &now, 0, tx.now());
            let seen = RegistrySyncState { synced_at: Some(began), failures: 0, due_at, ..now.seen };
            Ok(registry::put_poll_result(tx, now.id, &seen)?)
        })
        .await
}

async fn fail(registries: &RegistryJob, org: OrgId, before: Registry, error: String) -> Result<(), AppError> {
    registries
        .services
        .store
        .transact(TxContext::system(Some(org)), move |tx| {
            let Some(now) = reload_unchanged(tx, &before)? else { return Ok(()) };
            let failures = now.seen.failures + 1;
            let due_at = due_at(&before, &now, failures, tx.now());
            let seen = RegistrySyncState {
                status: RegistryStatus::Failed,
                error: Some(error.clone()),
                failures,
                due_at,
                ..now.seen.clone()
            };
            registry::put_poll_result(tx, now.id, &seen)?;
            if now.seen.failures == 0 {
                tx.record(registry_event(EventKind::RegistrySynced, &now).with("error", error))?;
            }
            Ok(())
        })
        .await
}

/// Reloads the registry. `None` if it was deleted or its ref was changed since `before`.
pub(super) fn reload_unchanged(tx: &mut Tx<'_>, before: &Registry) -> Result<Option<Registry>, StoreError> {
    Ok(registry::by_id(tx, before.id)?.filter(|now| now.reference == before.reference))
}

/// Returns when to poll again. If a sync was requested during the poll, its time is used.
pub(super) fn due_at(before: &Registry, now: &Registry, failures: i64, time: Timestamp) -> Option<Timestamp> {
    if now.seen.due_at == before.seen.due_at {
        Some(now.next_poll_at(failures, time))
    } else {
        now.seen.due_at
    }
}
