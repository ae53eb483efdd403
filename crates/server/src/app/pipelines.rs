//! Pipelines: list, view, create, redefine, stop, resume and delete.

use std::time::Duration;

use berth_api::pipeline as wire;
use berth_api::problem::Code;
use berth_core::access::{AccessTarget, Action, ActionPermit, EffectiveAccess, permit};
use berth_core::deployment::stages::stage::resume_promotion;
use berth_core::id::PipelineId;
use berth_core::name::{DisplayName, Reason, Slug};
use berth_core::pipeline::state::{self, CreatePipelineCommand, Pipeline, PipelineActivity};
use berth_engine::definitions::{check_definition, check_slug};
use berth_engine::stage_deployments;
use berth_engine::{declare_environments, delete_environments};
use berth_store::idempotency::IdempotencyKey;
use berth_store::pagination::{ListPage, PageStart};
use berth_store::tables::{pipeline, repository, stage};
use berth_store::{StoreRead, Tx};

use super::commit_details::fill_slots;
use super::deployed::{BEHIND_WAIT, TrackedHead, list_stages, stage_slots};
use super::resource_access::{require_on_pipeline, require_whole_pipeline, visible_page};
use super::{ApiResponse, App, IdempotentResponse, ResponsePage};
use crate::auth::authorize::AuthorizedCaller;
use crate::config::AppConfig;
use crate::error::AppError;
use crate::wire::actor_to_wire;

pub use berth_store::tables::pipeline::PipelineFilter;

pub struct NewPipeline {
    pub slug: Slug,
    pub name: Option<DisplayName>,
    pub source: String,
}

impl App {
    pub async fn list_pipelines(
        &self,
        who: &AuthorizedCaller<permit::PipelinesRead>,
        filter: PipelineFilter,
        from: PageStart,
        limit: i64,
    ) -> Result<ResponsePage<wire::WirePipeline>, AppError> {
        let (access, config) = (who.access().clone(), self.config.clone());
        let read = self.read(who, move |db| {
            let slice = list_visible(db, &access, &filter, &from, limit)?;
            let shown = slice
                .items
                .iter()
                .map(|it| Ok((build_list_item(db, it)?.body, TrackedHead::of_pipeline(it))));
            let mut shown = shown.collect::<Result<Vec<_>, AppError>>()?;
            let slots = shown.iter_mut().flat_map(|(it, _)| stage_slots(&mut it.stages, &it.slug, &access));
            fill_slots(db, &config.forges, slots.collect())?;
            Ok((shown, slice.total, slice.has_more))
        });
        let (mut shown, total, has_more) = read.await?;
        // Lists show only the commit counts that are cached, and do not wait for git.
        let found = shown.iter_mut().map(|(it, tracked)| (tracked.as_ref(), current_commits(it)));
        self.fill_behind(who.org(), found.collect(), Duration::ZERO).await;
        let items: Vec<wire::WirePipeline> = shown.into_iter().map(|(it, _)| it).collect();
        Ok(ResponsePage { last: items.last().map(|it| it.id.clone()), items, total, has_more })
    }

    pub async fn view_pipeline(
        &self,
        who: &AuthorizedCaller<permit::PipelinesRead>,
        key: String,
    ) -> Result<ApiResponse<wire::WirePipeline>, AppError> {
        let (access, config) = (who.access().clone(), self.config.clone());
        let read = self.read(who, move |db| {
            let found = find(db, &access, Action::PipelinesRead, &key)?;
            Ok((build_response(db, &access, &found, &config)?, TrackedHead::of_pipeline(&found)))
        });
        let (mut seen, tracked) = read.await?;
        let found = vec![(tracked.as_ref(), current_commits(&mut seen.body))];
        self.fill_behind(who.org(), found, BEHIND_WAIT).await;
        let counts: Vec<_> = current_commits(&mut seen.body).iter().filter_map(|it| it.behind_by).collect();
        let counts: String = counts.iter().map(|count| format!("-{count}")).collect();
        seen.variant = seen.variant.map(|variant| format!("{variant}{counts}"));
        Ok(seen)
    }

    pub async fn view_definition(
        &self,
        who: &AuthorizedCaller<permit::PipelinesRead>,
        key: String,
    ) -> Result<ApiResponse<wire::Definition>, AppError> {
        let access = who.access().clone();
        self.read(who, move |db| {
            let found = find(db, &access, Action::PipelinesRead, &key)?;
            require_whole_pipeline(&access, &found.slug)?;
            let source = pipeline::load_definition(db, &found.definition_hash)?;
            let source = source.ok_or_else(|| AppError::bug(format!("{} has no definition", found.id)))?;
            let body = wire::Definition { hash: found.definition_hash, source };
            Ok(ApiResponse::ok(body).with_version(found.version))
        })
        .await
    }

    pub async fn create_pipeline(
        &self,
        who: &AuthorizedCaller<permit::PipelinesWrite>,
        new: NewPipeline,
        once: Option<IdempotencyKey>,
    ) -> Result<IdempotentResponse<wire::WirePipeline>, AppError> {
        check_slug(&new.slug)?;
        let source = new.source.clone();
        let definition = self.parsing.run(who.org(), move || check_definition(&source)).await??;
        let (org, config) = (who.org(), self.config.clone());
        self.change(who, once, move |tx, standing| {
            require_on_pipeline(&standing.access, Action::PipelinesWrite, &new.slug)?;
            let holder = pipeline::by_slug(tx, &new.slug)?;
            let id = PipelineId::from_parts(tx.now(), tx.entropy()?);
            let environments = definition.environments.clone();
            let command = CreatePipelineCommand { id, slug: new.slug, name: new.name, definition };
            let decision = state::create(command, holder.as_ref(), tx.now())?;
            pipeline::put_definition(tx, &decision.answer.definition_hash, &new.source)?;
            let created = tx.commit(decision)?;
            declare_environments(tx, &created, environments)?;
            let location = format!("/api/v1/organizations/{org}/pipelines/{}", created.id);
            Ok(ApiResponse {
                status: 201,
                location: Some(location),
                ..build_response(tx, &standing.access, &created, &config)?
            })
        })
        .await
    }

    pub async fn redefine_pipeline(
        &self,
        who: &AuthorizedCaller<permit::PipelinesWrite>,
        key: String,
        source: String,
        expected: Option<i64>,
    ) -> Result<IdempotentResponse<wire::WirePipeline>, AppError> {
        let text = source.clone();
        let definition = self.parsing.run(who.org(), move || check_definition(&text)).await??;
        let config = self.config.clone();
        self.change(who, None, move |tx, standing| {
            let environments = definition.environments.clone();
            let found = find(tx, &standing.access, Action::PipelinesWrite, &key)?;
            refuse_synced(tx, &found)?;
            let decision = state::redefine(&found, definition, expected, tx.now())?;
            // The definition is unchanged, so write nothing.
            if decision.changes.is_empty() {
                return build_response(tx, &standing.access, &decision.answer, &config);
            }
            pipeline::put_definition(tx, &decision.answer.definition_hash, &source)?;
            let redefined = tx.commit(decision)?;
            declare_environments(tx, &redefined, environments)?;
            build_response(tx, &standing.access, &redefined, &config)
        })
        .await
    }

    pub async fn stop_pipeline(
        &self,
        who: &AuthorizedCaller<permit::PipelinesOperate>,
        key: String,
        reason: Option<Reason>,
        expected: Option<i64>,
        once: Option<IdempotencyKey>,
    ) -> Result<IdempotentResponse<wire::WirePipeline>, AppError> {
        let actor = who.principal().actor();
        self.decide(who, key, once, move |pipeline, tx| {
            state::stop(pipeline, actor, reason, expected, tx.now())
        })
        .await
    }

    /// Resumes a pipeline. Also resumes promotion into stages where a rollback paused it.
    pub async fn resume_pipeline(
        &self,
        who: &AuthorizedCaller<permit::PipelinesOperate>,
        key: String,
        reason: Option<Reason>,
        expected: Option<i64>,
        once: Option<IdempotencyKey>,
    ) -> Result<IdempotentResponse<wire::WirePipeline>, AppError> {
        let config = self.config.clone();
        let resumed = self.change(who, once, move |tx, standing| {
            let found = find(tx, &standing.access, Action::PipelinesOperate, &key)?;
            let decision = state::resume(&found, reason.as_ref(), expected, tx.now())?;
            let resumed = tx.commit(decision)?;
            for stage in stage::list_of_pipeline(tx, resumed.id)? {
                tx.commit(resume_promotion(&stage, reason.as_ref()))?;
            }
            build_response(tx, &standing.access, &resumed, &config)
        });
        let resumed = resumed.await;
        self.services.wake_engine();
        resumed
    }

    pub async fn delete_pipeline(
        &self,
        who: &AuthorizedCaller<permit::PipelinesWrite>,
        key: String,
        expected: Option<i64>,
        while_held: bool,
    ) -> Result<IdempotentResponse<wire::WirePipeline>, AppError> {
        let (plans, by) = (self.services.engine.run_cache().clone(), who.principal().actor());
        let config = self.config.clone();
        let deleted = self.change(who, None, move |tx, standing| {
            let found = find(tx, &standing.access, Action::PipelinesWrite, &key)?;
            let decision = state::delete(&found, expected, tx.now())?;
            super::secrets::delete_of_pipeline(tx, decision.answer.id)?;
            let deleted = tx.commit(decision)?;
            delete_environments(tx, &deleted, while_held)?;
            stage_deployments::cancel_all(tx, &plans, deleted.id, &by)?;
            build_response(tx, &standing.access, &deleted, &config)
        });
        let deleted = deleted.await;
        self.services.wake_engine();
        deleted
    }

    /// Loads a pipeline, applies `rule` and writes the decision.
    async fn decide<P: ActionPermit>(
        &self,
        who: &AuthorizedCaller<P>,
        key: String,
        once: Option<IdempotencyKey>,
        rule: impl FnOnce(
            &Pipeline,
            &Tx<'_>,
        ) -> Result<
            berth_core::decision::RuleDecision<Pipeline>,
            berth_core::decision::CommandRefusal,
        > + Send
        + 'static,
    ) -> Result<IdempotentResponse<wire::WirePipeline>, AppError> {
        let config = self.config.clone();
        self.change(who, once, move |tx, standing| {
            let decision = rule(&find(tx, &standing.access, P::ACTION, &key)?, tx)?;
            let decided = tx.commit(decision)?;
            build_response(tx, &standing.access, &decided, &config)
        })
        .await
    }
}

/// Finds a pipeline by the id or slug from a URL, and checks the permission on it.
pub(super) fn find(
    db: &mut impl StoreRead,
    access: &EffectiveAccess,
    action: Action,
    key: &str,
) -> Result<Pipeline, AppError> {
    let found = pipeline::find(db, key)?.ok_or_else(|| AppError::not_found("pipeline"))?;
    require_on_pipeline(access, action, &found.slug)?;
    Ok(found)
}

/// Lists the pipelines that the caller may see.
pub(super) fn list_visible(
    db: &mut impl StoreRead,
    access: &EffectiveAccess,
    filter: &PipelineFilter,
    from: &PageStart,
    limit: i64,
) -> Result<ListPage<Pipeline>, AppError> {
    if access.may_everywhere(Action::PipelinesRead) {
        return Ok(pipeline::list(db, filter, from, limit)?);
    }
    visible_page(
        db,
        (from, limit),
        |db, start, rows| pipeline::list(db, filter, start, rows),
        |it| it.id.to_string(),
        |_, it| Ok(access.may(Action::PipelinesRead, &AccessTarget::Pipeline(it.slug.to_string()))),
    )
}

/// Refuses to change a definition that comes from a repository, because the next sync would revert the change.
fn refuse_synced(db: &mut impl StoreRead, pipeline: &Pipeline) -> Result<(), AppError> {
    match load_origin(db, pipeline)? {
        None => Ok(()),
        Some(origin) => {
            let text = format!(
                "the definition of {} comes from {} in {}: change it there, and the next sync applies it",
                pipeline.slug, origin.path, origin.url
            );
            Err(AppError::new(Code::InvalidState, text))
        }
    }
}

fn load_origin(
    db: &mut impl StoreRead,
    pipeline: &Pipeline,
) -> Result<Option<wire::PipelineOrigin>, AppError> {
    let Some(origin) = &pipeline.origin else { return Ok(None) };
    let found = repository::by_id(db, origin.repository)?;
    Ok(found.map(|found| wire::PipelineOrigin {
        id: found.id.to_string(),
        url: found.url.to_string(),
        path: origin.path.clone(),
    }))
}

fn current_commits(pipeline: &mut wire::WirePipeline) -> Vec<&mut wire::CurrentCommit> {
    pipeline.stages.iter_mut().filter_map(|it| it.current.as_mut()).collect()
}

/// Builds the response.
fn build_response(
    db: &mut impl StoreRead,
    access: &EffectiveAccess,
    pipeline: &Pipeline,
    config: &AppConfig,
) -> Result<ApiResponse<wire::WirePipeline>, AppError> {
    let mut answer = build_list_item(db, pipeline)?;
    let slots = stage_slots(&mut answer.body.stages, pipeline.slug.as_str(), access);
    fill_slots(db, &config.forges, slots.collect())?;
    Ok(answer)
}

/// Builds the response without its commits. Its `ETag` covers the stages, because deployments change them without
/// changing the pipeline.
fn build_list_item(
    db: &mut impl StoreRead,
    pipeline: &Pipeline,
) -> Result<ApiResponse<wire::WirePipeline>, AppError> {
    let (stages, version) = list_stages(db, pipeline)?;
    let body = to_response(db, pipeline, stages)?;
    // The `ETag` also covers the webhooks that the definition refers to, because they too change without changing the
    // pipeline.
    let told = serde_json::to_vec(&body.notifications).ok().filter(|_| !body.notifications.is_empty());
    // A failure in a stage changes neither the stage nor the pipeline.
    let failed: String = body.stages.iter().filter_map(|it| Some(it.failed.as_ref()?.at.as_str())).collect();
    let answer = ApiResponse::ok(body).with_version(pipeline.version);
    let parts = [
        (version > 0).then(|| format!("s{version}")),
        (!failed.is_empty()).then(|| format!("f{}", crc32fast::hash(failed.as_bytes()))),
        told.map(|told| format!("n{}", crc32fast::hash(&told))),
    ];
    let variant: String = parts.into_iter().flatten().collect();
    Ok(if variant.is_empty() { answer } else { answer.with_variant(variant) })
}

fn to_response(
    db: &mut impl StoreRead,
    pipeline: &Pipeline,
    stages: Vec<wire::PipelineStage>,
) -> Result<wire::WirePipeline, AppError> {
    let repository = load_origin(db, pipeline)?;
    let (notifications, warnings) = super::webhooks::list_notifications(db, pipeline)?;
    let (status, stopped) = match &pipeline.status {
        PipelineActivity::Active => (wire::PipelineStatus::Active, None),
        PipelineActivity::Stopped { by, at, reason } => {
            let reason = reason.as_ref().map(ToString::to_string);
            (
                wire::PipelineStatus::Stopped,
                Some(wire::PipelineStop { by: actor_to_wire(by), at: at.to_string(), reason }),
            )
        }
    };
    Ok(wire::WirePipeline {
        id: pipeline.id.to_string(),
        name: pipeline.name.to_string(),
        slug: pipeline.slug.to_string(),
        status,
        stopped,
        tracks: pipeline.outline.tracks.clone(),
        stages,
        environments: pipeline.outline.environments.clone(),
        notifications,
        warnings,
        definition_hash: pipeline.definition_hash.clone(),
        repository,
        retired_at: pipeline.retired_at.map(|time| time.to_string()),
        created_at: pipeline.created_at.to_string(),
        updated_at: pipeline.updated_at.to_string(),
        deleted_at: pipeline.deleted_at.map(|time| time.to_string()),
    })
}
