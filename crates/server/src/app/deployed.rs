//! The commits that are deployed in each stage and environment, and how many commits they are behind the tracked
//! branch.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use berth_api::deployed::{DeployedEnvironment, DeployedPipeline};
use berth_api::pipeline as wire;
use berth_core::access::{AccessTarget, Action, EffectiveAccess, permit};
use berth_core::environment::Lock;
use berth_core::id::{OrgId, RepositoryId};
use berth_core::pipeline::state::Pipeline;
use berth_engine::git::{CommitHash, GitError};
use berth_engine::limits::GIT_AT_ONCE;
use berth_store::StoreRead;
use berth_store::pagination::PageStart;
use berth_store::tables::current_deployment;
use berth_store::tables::current_deployment::{CurrentDeployment, FailedDeployment};
use berth_store::tables::{environment, plan};
use futures_util::{StreamExt as _, stream};
use quick_cache::sync::Cache;

use super::commit_details::{CommitSlot, fill_slots};
use super::environments::response::{holder_to_wire, takeover_to_wire};
use super::pipelines::{PipelineFilter, list_visible};
use super::pull_requests::find_link;
use super::resource_access::environment_in;
use super::{App, ResponsePage};
use crate::auth::authorize::AuthorizedCaller;
use crate::error::AppError;
use crate::wire::actor_to_wire;

/// How long a request waits for git to count commits. Counts that are not available by then are null in the response.
pub(super) const BEHIND_WAIT: Duration = Duration::from_millis(500);
/// Maximum number of entries in the cache of commit counts.
const BEHIND_KNOWN_MAX: usize = 4_096;

/// Cache of the number of commits between a commit and a branch head. This number never changes for a given pair of
/// commits, so entries are never invalidated.
#[derive(Clone)]
pub(crate) struct CommitDistanceCache(Arc<Cache<CommitPair, Option<u64>>>);

impl Default for CommitDistanceCache {
    fn default() -> Self {
        Self(Arc::new(Cache::new(BEHIND_KNOWN_MAX)))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct CommitPair {
    repository: RepositoryId,
    commit: CommitHash,
    head: CommitHash,
}

impl CommitDistanceCache {
    /// Returns the cached count. The outer `None` means that it is not cached; the inner `None`, that git cannot
    /// determine it.
    fn get(&self, pair: &CommitPair) -> Option<Option<u64>> {
        if pair.commit == pair.head { Some(Some(0)) } else { self.0.get(pair) }
    }
}

/// The head of the tracked branch, which deployed commits are compared with.
pub(super) struct TrackedHead {
    repository: RepositoryId,
    head: CommitHash,
}

impl TrackedHead {
    pub(super) fn of_pipeline(pipeline: &Pipeline) -> Option<Self> {
        let repository = pipeline.origin.as_ref()?.repository;
        Some(Self { repository, head: CommitHash::parse(pipeline.head.as_deref()?)? })
    }

    fn commit_pair(&self, current: &wire::CurrentCommit) -> Option<CommitPair> {
        let (repository, head) = (self.repository, self.head.clone());
        Some(CommitPair { repository, commit: CommitHash::parse(&current.commit_id)?, head })
    }
}

impl App {
    /// Lists pipelines with what is deployed in their stages and environments.
    pub async fn list_deployed(
        &self,
        who: &AuthorizedCaller<permit::DeploymentsRead>,
        from: PageStart,
        limit: i64,
    ) -> Result<ResponsePage<DeployedPipeline>, AppError> {
        let (access, config) = (who.access().clone(), self.config.clone());
        let read = self.read(who, move |db| {
            let slice = list_visible(db, &access, &PipelineFilter::default(), &from, limit)?;
            let mut items = Vec::with_capacity(slice.items.len());
            for pipeline in &slice.items {
                items.push((to_response(db, &access, pipeline)?, TrackedHead::of_pipeline(pipeline)));
            }
            let slots = items.iter_mut().flat_map(|(item, _)| commit_slots(item, &access));
            fill_slots(db, &config.forges, slots.collect())?;
            Ok((items, slice.total, slice.has_more))
        });
        let (mut items, total, has_more) = read.await?;
        let found = items.iter_mut().map(|(item, tracked)| {
            let stages = item.stages.iter_mut().filter_map(|it| it.current.as_mut());
            let environments = item.environments.iter_mut().filter_map(|it| it.current.as_mut());
            (tracked.as_ref(), stages.chain(environments).collect())
        });
        self.fill_behind(who.org(), found.collect(), BEHIND_WAIT).await;
        let items: Vec<DeployedPipeline> = items.into_iter().map(|(item, _)| item).collect();
        let last = items.last().map(|item| item.pipeline_id.clone());
        Ok(ResponsePage { items, total, has_more, last })
    }

    /// Sets `behind_by` for each commit whose count is cached or can be computed within `patience`.
    pub(super) async fn fill_behind(
        &self,
        org: OrgId,
        of: Vec<(Option<&TrackedHead>, Vec<&mut wire::CurrentCommit>)>,
        patience: Duration,
    ) {
        let pairs = of.iter().flat_map(|(tracked, all)| {
            all.iter().filter_map(|current| tracked.and_then(|tracked| tracked.commit_pair(current)))
        });
        let unknown: HashSet<CommitPair> = pairs.filter(|pair| self.behind.get(pair).is_none()).collect();
        if !patience.is_zero() && !unknown.is_empty() {
            let counted = stream::iter(unknown)
                .for_each_concurrent(GIT_AT_ONCE.share, |pair| self.count_behind(org, pair));
            // Git counts that are still running at the timeout continue on their blocking threads and fill the cache.
            let _ = tokio::time::timeout(patience, counted).await;
        }
        for (tracked, all) in of {
            for current in all {
                let pair = tracked.and_then(|tracked| tracked.commit_pair(current));
                current.behind_by = pair.and_then(|pair| self.behind.get(&pair)).flatten();
            }
        }
    }

    async fn count_behind(&self, org: OrgId, pair: CommitPair) {
        let (behind, mirror) = (self.behind.clone(), self.services.git.mirror(org, pair.repository));
        let counted =
            self.services.git.run(org, move || match mirror.count_between(&pair.commit, &pair.head) {
                Ok(count) => behind.0.insert(pair, Some(count)),
                // These errors are transient and say nothing about the commits, so they are not cached.
                Err(GitError::Stopping | GitError::TooSlow(_) | GitError::Io { .. }) => {}
                Err(_) => behind.0.insert(pair, None),
            });
        if let Err(error) = counted.await {
            tracing::debug!(?error, "counting commits failed");
        }
    }
}

fn to_response(
    db: &mut impl StoreRead,
    access: &EffectiveAccess,
    pipeline: &Pipeline,
) -> Result<DeployedPipeline, AppError> {
    let mut environments = Vec::new();
    for lock in environment::list_of_pipeline(db, pipeline.id)? {
        if !access.may(Action::EnvironmentsRead, &environment_in(&pipeline.slug, &lock.environment)) {
            continue;
        }
        environments.push(environment_to_response(db, &lock, pipeline)?);
    }
    Ok(DeployedPipeline {
        pipeline_id: pipeline.id.to_string(),
        slug: pipeline.slug.to_string(),
        name: pipeline.name.to_string(),
        head: pipeline.head.clone(),
        failed: current_deployment::find_failed_of_pipeline(db, pipeline.id)?.map(to_wire_failed),
        stages: list_stages(db, pipeline)?.0,
        environments,
    })
}

/// Returns the places whose commits the caller may read.
fn commit_slots<'i>(item: &'i mut DeployedPipeline, access: &'i EffectiveAccess) -> Vec<CommitSlot<'i>> {
    let environments = item
        .environments
        .iter_mut()
        .flat_map(|it| [it.current.as_mut().map(CommitSlot::from), it.failed.as_mut().map(CommitSlot::from)]);
    let on_pipeline = AccessTarget::Pipeline(item.slug.clone());
    let may_read_failed = access.may(Action::DeploymentsRead, &on_pipeline);
    let failed = item.failed.as_mut().filter(|_| may_read_failed).map(CommitSlot::from);
    let stages = stage_slots(&mut item.stages, &item.slug, access);
    environments.flatten().chain(failed).chain(stages).collect()
}

/// Returns the places of stages whose commits the caller may read.
pub(super) fn stage_slots<'i>(
    stages: &'i mut [wire::PipelineStage],
    pipeline: &'i str,
    access: &'i EffectiveAccess,
) -> impl Iterator<Item = CommitSlot<'i>> {
    let may_read = move |stage: &str| {
        let target = AccessTarget::Stage { pipeline: pipeline.to_owned(), stage: stage.to_owned() };
        access.may(Action::DeploymentsRead, &target)
    };
    stages
        .iter_mut()
        .filter(move |it| may_read(&it.name))
        .flat_map(|it| [it.current.as_mut().map(CommitSlot::from), it.failed.as_mut().map(CommitSlot::from)])
        .flatten()
}

/// Returns the stages of a pipeline, and a number that increases whenever one of them changes.
pub(super) fn list_stages(
    db: &mut impl StoreRead,
    pipeline: &Pipeline,
) -> Result<(Vec<wire::PipelineStage>, i64), AppError> {
    let found = current_deployment::list_of_stages(db, pipeline)?;
    let version = found.iter().map(|it| it.version).sum();
    let stages = found.into_iter().map(|it| wire::PipelineStage {
        name: it.name,
        current: it.current.map(to_wire_current),
        failed: it.failed.map(to_wire_failed),
        paused: it.pause.map(|pause| wire::PromotionPaused {
            by: actor_to_wire(&pause.by),
            at: pause.at.to_string(),
            reason: pause.reason.map(|reason| reason.to_string()),
            deployment_id: pause.rollback.to_string(),
        }),
    });
    Ok((stages.collect(), version))
}

fn environment_to_response(
    db: &mut impl StoreRead,
    lock: &Lock,
    pipeline: &Pipeline,
) -> Result<DeployedEnvironment, AppError> {
    let it = &lock.environment;
    let mut found = match it.deployed_commit {
        Some(_) => current_deployment::find_of_environment(db, it.id)?,
        None => None,
    };
    // The deployment stores the commit as requested, which may be an abbreviation or a ref. The plan stores the
    // resolved commit.
    if let Some(found) = &mut found
        && pipeline.origin.is_some()
        && CommitHash::parse(&found.commit).is_none()
        && let Some(source) = plan::by_id(db, found.deployment)?.and_then(|plan| plan.source)
    {
        found.commit = source.commit;
    }
    Ok(DeployedEnvironment {
        environment_id: it.id.to_string(),
        env_name: it.name.to_string(),
        current: found.map(to_wire_current),
        failed: current_deployment::find_failed_of_environment(db, it.id)?.map(to_wire_failed),
        holder: lock.session.as_ref().map(|session| holder_to_wire(&session.holder)),
        held_since: lock.session.as_ref().map(|session| session.claimed_at.to_string()),
        held_until: lock.session.as_ref().and_then(|session| session.expires_at).map(|at| at.to_string()),
        context: lock.session.as_ref().and_then(|session| session.context.as_ref()).map(ToString::to_string),
        contact: lock.session.as_ref().and_then(|session| session.contact.as_ref()).map(ToString::to_string),
        takeover: takeover_to_wire(lock),
        queue_length: lock.tickets.len(),
        deploying: lock.deployments.last().map(|it| it.commit.to_string()),
        pull_request: find_link(db, lock.session.as_ref().map(|session| session.id))?,
    })
}

fn to_wire_current(it: CurrentDeployment) -> wire::CurrentCommit {
    wire::CurrentCommit {
        commit_id: it.commit,
        commit: None,
        deployment_id: it.deployment.to_string(),
        at: it.at.to_string(),
        by: actor_to_wire(&it.by),
        behind_by: None,
    }
}

fn to_wire_failed(it: FailedDeployment) -> wire::FailedDeployment {
    let FailedDeployment { number, deployment } = it;
    wire::FailedDeployment {
        deployment_id: deployment.deployment.to_string(),
        number,
        commit_id: deployment.commit,
        commit: None,
        at: deployment.at.to_string(),
        by: actor_to_wire(&deployment.by),
    }
}
