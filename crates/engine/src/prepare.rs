//! Resolves a deployment's commit and makes its plan. This happens in the background, outside of transactions and API
//! requests.

use berth_core::deployment::run::{Plan, SourceCommit};
use berth_core::deployment::{ExecutionFailure, FailureCode};
use berth_core::id::{OrgId, PipelineId, SessionId};
use berth_core::name::{CommitId, EnvName};
use berth_core::pipeline::PipelineDefinition;
use berth_core::pipeline::state::Pipeline;
use berth_core::time::Timestamp;
use berth_definition::parse;
use berth_definition::planning::{EntityNames, PlanInputs, PlanTarget, id_token_obstacles, plan};
use berth_store::TxContext;
use berth_store::tables::commit::CommitRecord;
use berth_store::tables::{organization, pipeline, registry, repository};
use serde_json::{Map, Value, json};

use crate::error::EngineError;
use crate::git::{GitError, ResolvedCommit, ambiguous_message, is_whole_hash};
use crate::services::Services;

/// The inputs of a deployment's plan.
pub(super) struct DeploymentPlanRequest {
    pub(super) pipeline: PipelineId,
    pub(super) definition_hash: String,
    pub(super) commit: String,
    pub(super) asked_at: Timestamp,
    /// The environment and its fence. `None` for a deployment to stages.
    pub(super) environment: Option<(EnvName, i64)>,
    pub(super) trigger: String,
    pub(super) branch: Option<String>,
    pub(super) actor: String,
    /// Id, holder and context of the session that the deployment belongs to.
    pub(super) session: Option<(SessionId, String, Option<String>)>,
}

pub(super) struct PreparedPlan {
    pub(super) plan: Plan,
    /// The full commit hash. If the pipeline has no repository, the commit exactly as the client sent it.
    pub(super) commit: String,
    /// The commit as shown to people. `None` if the pipeline has no repository.
    pub(super) described: Option<CommitRecord>,
}

pub(super) enum PrepareResult {
    Ready(PreparedPlan),
    /// The deployment cannot run, now or later.
    Failed(ExecutionFailure),
    /// The repository has to be synced first. The sync has been requested and wakes the engine when it is done.
    Later,
}

pub(super) async fn prepare(
    services: &Services,
    org: OrgId,
    wanted: DeploymentPlanRequest,
) -> Result<PrepareResult, EngineError> {
    let (id, hash) = (wanted.pipeline, wanted.definition_hash.clone());
    let read = services.store.read(Some(org), move |db| {
        let pipeline = pipeline::by_id(db, id)?;
        let organization = organization::by_id(db, org)?;
        Ok::<_, EngineError>((pipeline, organization, pipeline::load_definition(db, &hash)?))
    });
    let (Some(pipeline), Some(organization), Some(definition)) = read.await? else {
        return Ok(PrepareResult::Failed(not_runnable("its pipeline or its definition was deleted")));
    };
    let (source, described) = match resolve_source(services, org, &pipeline, &wanted).await? {
        CommitLookup::Commit(source, described) => (Some(source), Some(described)),
        CommitLookup::NoRepository => (None, None),
        CommitLookup::Missing(detail) => {
            return Ok(PrepareResult::Failed(ExecutionFailure {
                cause: FailureCode::CommitNotFound,
                detail,
            }));
        }
        CommitLookup::Ambiguous(detail) => {
            return Ok(PrepareResult::Failed(ExecutionFailure {
                cause: FailureCode::CommitAmbiguous,
                detail,
            }));
        }
        CommitLookup::Later => return Ok(PrepareResult::Later),
    };
    let commit = source.as_ref().map_or(wanted.commit.clone(), |source| source.commit.clone());
    let read = services.engine.planning.run(org, move || parse_stored_definition(&definition)).await?;
    let definition = match read {
        Ok(definition) => definition,
        Err(failure) => return Ok(PrepareResult::Failed(failure)),
    };
    let types = definition.custom_types();
    let looked_up = services.store.read(Some(org), move |db| {
        Ok::<_, EngineError>(registry::resolve_types(db, types.iter().map(String::as_str))?)
    });
    let facts = PlanInputs {
        organization: EntityNames {
            id: organization.id.to_string(),
            slug: organization.slug.to_string(),
            name: organization.name.to_string(),
        },
        pipeline: EntityNames {
            id: pipeline.id.to_string(),
            slug: pipeline.slug.to_string(),
            name: pipeline.name.to_string(),
        },
        commit: commit.clone(),
        source,
        trigger: members(json!({
            "kind": wanted.trigger, "actor": wanted.actor, "branch": wanted.branch,
        })),
        session: wanted.session.map(|(id, holder, context)| {
            members(json!({"id": id.to_string(), "holder": holder, "context": context}))
        }),
        environment: wanted
            .environment
            .as_ref()
            .map(|(name, fence)| members(json!({"name": name.as_str(), "fence": fence}))),
        default_network: organization.default_network,
        offers: looked_up.await?,
    };
    let environment = wanted.environment.map(|(name, _)| name);
    let planned = move || {
        let target = environment.as_ref().map_or(PlanTarget::Stages, PlanTarget::Environment);
        plan(&definition, &target, &facts)
    };
    let made = services.engine.planning.run(org, planned).await?;
    let has_issuer = services.config.public_url.is_some();
    Ok(match made {
        Ok(plan) if !has_issuer && !id_token_obstacles(&plan).is_empty() => {
            PrepareResult::Failed(not_runnable(id_token_obstacles(&plan).swap_remove(0)))
        }
        Ok(plan) => PrepareResult::Ready(PreparedPlan { plan, commit, described }),
        Err(failure) => PrepareResult::Failed(failure),
    })
}

fn parse_stored_definition(source: &str) -> Result<PipelineDefinition, ExecutionFailure> {
    let parsed = parse(source);
    parsed.definition.ok_or_else(|| {
        let first = parsed.diagnostics.first().map_or("it has errors", |found| &found.message);
        not_runnable(format!("this version cannot read its definition: {first}"))
    })
}

enum CommitLookup {
    Commit(SourceCommit, CommitRecord),
    /// The pipeline has no repository, so it accepts any commit.
    NoRepository,
    /// The text is shown to users.
    Missing(String),
    /// The text is shown to users.
    Ambiguous(String),
    Later,
}

/// Resolves the commit of a deployment. A full hash is looked up in the mirror, and if it is missing, a sync is
/// requested. Any other name requires that the mirror was synced after the deployment was requested, because a branch
/// or tag may have moved, or a new one may have the same name as an abbreviated hash.
async fn resolve_source(
    services: &Services,
    org: OrgId,
    pipeline: &Pipeline,
    wanted: &DeploymentPlanRequest,
) -> Result<CommitLookup, EngineError> {
    let Some(id) = pipeline.origin.as_ref().map(|origin| origin.repository) else {
        return Ok(CommitLookup::NoRepository);
    };
    let read = services.store.read(Some(org), move |db| Ok::<_, EngineError>(repository::by_id(db, id)?));
    let Some(repository) = read.await? else {
        return Ok(CommitLookup::Missing("the repository of this pipeline was deleted".into()));
    };
    let text = &wanted.commit;
    let is_hash = is_whole_hash(text);
    let is_fresh = repository.seen.synced_at.is_some_and(|at| at >= wanted.asked_at);
    let error = repository.seen.error;
    if is_hash || is_fresh || error.is_some() {
        let Ok(name) = CommitId::parse(text) else {
            return Ok(CommitLookup::Missing(format!("{text} is not the name of a commit")));
        };
        let mirror = services.git.mirror(org, id);
        let looked_up = move || {
            Ok(match mirror.resolve(&name)? {
                ResolvedCommit::Commit(sha) => {
                    let described = mirror.describe(&sha)?;
                    let committed_at = Some(described.committed_at);
                    let source = SourceCommit { repository: id, commit: sha.to_string(), committed_at };
                    Some(CommitLookup::Commit(source, described.into_record(id)))
                }
                ResolvedCommit::Several(commits) => {
                    Some(CommitLookup::Ambiguous(ambiguous_message(&name, &commits)))
                }
                ResolvedCommit::Nothing => None,
            })
        };
        match services.git.run(org, looked_up).await? {
            Ok(Some(found)) => return Ok(found),
            Ok(None) => {}
            // These errors are transient, so the commit is looked up again later.
            Err(error @ (GitError::Stopping | GitError::TooSlow(_) | GitError::Io { .. })) => {
                tracing::warn!(%error, repository = %id, "commit lookup failed");
                return Ok(CommitLookup::Later);
            }
            Err(error) => tracing::info!(%error, repository = %id, "commit lookup failed"),
        }
    }
    if let Some(error) = error {
        let text = format!(
            "commit {text} is not in the local copy of the repository, which cannot be updated: {error}"
        );
        return Ok(CommitLookup::Missing(text));
    }
    if is_fresh {
        return Ok(CommitLookup::Missing(format!(
            "there is no commit {text} in the repository of this pipeline"
        )));
    }
    let hasten = services.store.transact(TxContext::system(Some(org)), move |tx| {
        let now = tx.now();
        Ok::<_, EngineError>(repository::schedule_sync(tx, id, now)?)
    });
    hasten.await?;
    services.sync_wanted.notify_one();
    Ok(CommitLookup::Later)
}

fn members(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

fn not_runnable(detail: impl Into<String>) -> ExecutionFailure {
    ExecutionFailure { cause: FailureCode::NotRunnable, detail: detail.into() }
}
