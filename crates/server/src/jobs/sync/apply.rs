//! Applies a sync: creates and updates pipelines from their definitions, and starts deployments for new branch heads.

use std::collections::{HashMap, HashSet};

use berth_core::deployment::StartTrigger;
use berth_core::event::Actor;
use berth_core::id::{OrgId, PipelineId, RepositoryId};
use berth_core::name::{CommitId, Slug};
use berth_core::pipeline::origin::{self, DefinitionOrigin};
use berth_core::pipeline::state::{self, CreatePipelineCommand, Pipeline};
use berth_core::repository::SyncProblem;
use berth_engine::declare_environments;
use berth_engine::git::{BranchHeads, ChangedPaths, CommitHash, GitMirror};
use berth_engine::stage_deployments::{self, StartRequest};
use berth_store::tables::pipeline;
use berth_store::{Tx, TxContext};
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use super::find::{FoundDefinitions, ValidDefinition, sync_problem};
use super::{PIPELINES_MAX, SyncJob};
use crate::error::AppError;
use crate::limits::CHANGED_PATHS_MAX;

pub(super) struct ApplyResult {
    pub(super) problems: Vec<SyncProblem>,
    pub(super) has_changed: bool,
    /// Pipelines whose files have errors. They keep their last good definition, and no new deployments start.
    pub(super) broken: HashSet<Slug>,
}

/// Applies each definition in a separate transaction, so that a failure does not affect other pipelines.
pub(super) async fn apply_definitions(
    syncs: &SyncJob,
    org: OrgId,
    repository: RepositoryId,
    found: FoundDefinitions,
) -> Result<ApplyResult, AppError> {
    let FoundDefinitions { good, mut problems, slugs, is_cut } = found;
    let mut has_changed = false;
    let usable: HashSet<Slug> = good.iter().map(|it| it.slug.clone()).collect();
    for definition in good {
        let path = definition.path.clone();
        let done = syncs
            .services
            .store
            .transact(TxContext::system(Some(org)), move |tx| define_pipeline(tx, repository, definition));
        match done.await {
            Ok(changed) => has_changed |= changed,
            Err(AppError::Problem(why)) => problems.push(sync_problem(&path, why.detail)),
            Err(error) => return Err(error),
        }
    }
    let named: HashSet<Slug> = slugs.into_iter().collect();
    for gone in list_pipelines(syncs, org, repository).await? {
        if gone.retired_at.is_none() && !named.contains(&gone.slug) && !is_cut {
            has_changed = true;
            let id = gone.id;
            let retire = syncs.services.store.transact(TxContext::system(Some(org)), move |tx| {
                let Some(found) = pipeline::by_id(tx, id)? else { return Ok(()) };
                let now = tx.now();
                tx.commit(origin::retire(&found, now))?;
                Ok::<_, AppError>(())
            });
            retire.await?;
        }
    }
    let broken = named.difference(&usable).cloned().collect();
    Ok(ApplyResult { problems, has_changed, broken })
}

async fn list_pipelines(
    syncs: &SyncJob,
    org: OrgId,
    repository: RepositoryId,
) -> Result<Vec<Pipeline>, AppError> {
    let found = syncs.services.store.read(Some(org), move |db| {
        Ok::<_, AppError>(pipeline::list_of_repository(db, repository, PIPELINES_MAX)?)
    });
    found.await
}

/// Creates a pipeline, changes it, or restores it if it was retired. Returns whether anything changed.
fn define_pipeline(
    tx: &mut Tx<'_>,
    repository: RepositoryId,
    found: ValidDefinition,
) -> Result<bool, AppError> {
    let ValidDefinition { slug, path, source, defined } = found;
    let (environments, now) = (defined.environments.clone(), tx.now());
    let held = pipeline::by_slug(tx, &slug)?;
    let is_ours = |it: &Pipeline| it.origin.as_ref().is_some_and(|origin| origin.repository == repository);
    let decision = match &held {
        Some(ours) if is_ours(ours) => {
            let revived = origin::revive(ours, now);
            let is_back = !revived.changes.is_empty();
            let revived = tx.commit(revived)?;
            let decision = state::redefine(&revived, defined, None, now)?;
            if decision.changes.is_empty() {
                return Ok(is_back);
            }
            decision
        }
        other => {
            berth_engine::definitions::check_slug(&slug)?;
            let id = PipelineId::from_parts(now, tx.entropy()?);
            let command = CreatePipelineCommand { id, slug, name: None, definition: defined };
            origin::create_from(command, DefinitionOrigin { repository, path }, other.as_ref(), now)?
        }
    };
    pipeline::put_definition(tx, &decision.answer.definition_hash, &source)?;
    let written = tx.commit(decision)?;
    declare_environments(tx, &written, environments)?;
    Ok(true)
}

/// A tracked branch whose head has changed.
struct HeadMove {
    pipeline: PipelineId,
    branch: String,
    from: Option<String>,
    to: CommitHash,
    paths: Vec<String>,
}

/// Starts deployments for new branch heads. Returns whether there were any.
pub(super) async fn apply_heads(
    syncs: &SyncJob,
    org: OrgId,
    repository: RepositoryId,
    mirror: &GitMirror,
    heads: &BranchHeads,
    broken: &HashSet<Slug>,
) -> Result<bool, AppError> {
    let all = list_pipelines(syncs, org, repository).await?;
    let runs = all.into_iter().filter(|it| it.retired_at.is_none() && !broken.contains(&it.slug));
    let moved = runs.filter_map(|it| find_head_move(it, heads));
    let moved: Vec<HeadMove> = moved.collect();
    if moved.is_empty() {
        return Ok(false);
    }
    let reader = mirror.clone();
    let judged = syncs.services.git.run(org, move || match_paths(&reader, moved)).await?;
    for (moved, starts) in judged {
        let done = syncs
            .services
            .store
            .transact(TxContext::system(Some(org)), move |tx| apply_head_move(tx, moved, starts));
        done.await?;
    }
    syncs.services.wake_engine();
    Ok(true)
}

fn find_head_move(pipeline: Pipeline, heads: &BranchHeads) -> Option<HeadMove> {
    let branch = pipeline.outline.tracks.or_else(|| heads.default_branch.clone())?;
    let to = heads.branches.get(&branch)?.clone();
    let is_new = pipeline.head.as_deref() != Some(to.as_str());
    is_new.then_some(HeadMove {
        pipeline: pipeline.id,
        branch,
        from: pipeline.head,
        to,
        paths: pipeline.outline.paths,
    })
}

/// Decides which new heads affect their pipelines. The pipelines of a repository usually track the same branch, so each
/// commit range is compared only once.
fn match_paths(mirror: &GitMirror, moved: Vec<HeadMove>) -> Vec<(HeadMove, bool)> {
    let mut between: HashMap<(String, CommitHash), ChangedPaths> = HashMap::new();
    let judged = moved.into_iter().map(|it| {
        let from = it.from.as_deref().and_then(CommitHash::parse).filter(|_| !it.paths.is_empty());
        let starts = match (from, globs(&it.paths)) {
            (Some(from), Some(globs)) => {
                let changes = between.entry((from.to_string(), it.to.clone())).or_insert_with(|| {
                    // If the changed files cannot be determined, deploy: an unnecessary deployment is better than a
                    // missed one.
                    mirror.changed_paths(&from, &it.to, CHANGED_PATHS_MAX).unwrap_or(ChangedPaths::Anything)
                });
                match changes {
                    ChangedPaths::Anything => true,
                    ChangedPaths::Paths(paths) => paths.iter().any(|path| globs.is_match(path)),
                }
            }
            _ => true,
        };
        (it, starts)
    });
    judged.collect()
}

fn globs(patterns: &[String]) -> Option<GlobSet> {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        set.add(GlobBuilder::new(pattern).literal_separator(true).build().ok()?);
    }
    set.build().ok()
}

/// Stores the new head in the same transaction that starts the deployment, so that each head starts exactly one.
fn apply_head_move(tx: &mut Tx<'_>, moved: HeadMove, starts: bool) -> Result<(), AppError> {
    let Some(found) = pipeline::by_id(tx, moved.pipeline)? else { return Ok(()) };
    pipeline::move_head(tx, found.id, moved.to.as_str())?;
    if starts && !found.outline.stages.is_empty() && found.retired_at.is_none() {
        let commit = CommitId::parse(moved.to.as_str()).map_err(|error| AppError::bug(error.to_string()))?;
        let trigger = StartTrigger::Push { branch: moved.branch };
        let asked = StartRequest { commit, trigger, by: Actor::system(), reason: None, bypass: None };
        let started = stage_deployments::start(tx, &found, asked)?.id;
        tracing::info!(pipeline = %found.slug, commit = %moved.to, deployment = %started, "branch moved; deployment started");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use berth_core::repository::RemoteUrl;
    use berth_core::time::Timestamp;

    use super::*;
    use berth_engine::git::RepositoryAccess;

    #[test]
    fn head_move_with_matching_or_unknown_changes_starts_deployment() {
        let (dir, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let git = |args: &[&str]| {
            let known = ["-c", "user.name=Ada", "-c", "user.email=ada@acme.test"];
            let ran = Command::new("git").args(known).args(args).current_dir(dir.path()).output().unwrap();
            String::from_utf8(ran.stdout).unwrap().trim().to_owned()
        };
        let commit = |path: &str| {
            std::fs::write(dir.path().join(path), path).unwrap();
            git(&["add", "--all"]);
            git(&["commit", "--quiet", "-m", path]);
            CommitHash::parse(&git(&["rev-parse", "HEAD"])).unwrap()
        };
        git(&["init", "--quiet"]);
        std::fs::create_dir(dir.path().join("shop")).unwrap();
        let commits = [commit("readme"), commit("shop/main.rs"), commit("notes")];
        let mirror = GitMirror::standalone(copy.path().join("rep.git"), Duration::from_secs(60));
        let url = RemoteUrl::parse(dir.path().to_str().unwrap()).unwrap();
        let access = RepositoryAccess { is_local: true, roots: Vec::new(), hosts: Vec::new() };
        mirror.sync(&url, None, &access).unwrap();

        let starts = |from: Option<&str>, to: &CommitHash, paths: &[&str]| {
            let moved = HeadMove {
                pipeline: PipelineId::from_parts(Timestamp::from_micros(1), [0; 10]),
                branch: "main".into(),
                from: from.map(str::to_owned),
                to: to.clone(),
                paths: paths.iter().map(ToString::to_string).collect(),
            };
            match_paths(&mirror, vec![moved]).remove(0).1
        };
        let [first, second, third] = &commits;
        assert!(starts(Some(first.as_str()), second, &["shop/**"]));
        assert!(!starts(Some(second.as_str()), third, &["shop/**"]), "only notes changed");
        assert!(starts(Some(first.as_str()), third, &["docs/**", "shop/**"]), "one in between counts");
        assert!(starts(Some(second.as_str()), third, &[]), "without paths everything counts");
        assert!(starts(None, first, &["shop/**"]), "the first head of all");
        assert!(starts(Some(&"0".repeat(40)), third, &["shop/**"]), "a commit that no longer exists");
    }
}
