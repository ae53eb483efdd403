//! Endpoints for pipelines.

use std::sync::Arc;

use axum::extract::{Path, State};
use berth_api::Data;
use berth_api::page::List;
use berth_api::pipeline::{
    Because, Definition, DefinitionNew, DefinitionText, Pipeline, PipelineNew, PipelineStatus, Validation,
};
use berth_api::plan::{Plan, PlanNew};
use berth_core::access::permit;
use berth_core::id::PipelineId;
use berth_core::name::{CommitId, DisplayName, EnvName, Reason, Slug};

use crate::app::{Answer, App, NewPipeline, Outcome, PipelineFilter, PlanAsked, PlanOf};
use crate::error::AppError;
use crate::http::body::{Posted, Sent};
use crate::http::check::Check;
use crate::http::guard::Allowed;
use crate::http::query::{IfMatch, Listed, Paging, Params};

/// List pipelines, oldest first.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}/pipelines", tag = "pipelines",
    params(("search" = Option<String>, Query, description = "Only pipelines whose slug or name contains this text"),
           ("status" = Option<PipelineStatus>, Query, description = "Only pipelines with this status")),
    responses((status = 200, body = List<Pipeline>)))]
pub(crate) async fn list_pipelines(
    State(app): State<Arc<App>>,
    Allowed(who): Allowed<permit::PipelinesRead>,
    paging: Paging,
) -> Result<Listed<Pipeline>, AppError> {
    let filter = PipelineFilter {
        status: paging.params.one_of("status", &["active", "stopped"])?,
        search: paging.params.text("search")?,
    };
    let page = app.list_pipelines(&who, filter, paging.start::<PipelineId>()?, paging.limit).await?;
    Ok(paging.list(page))
}

/// Create a pipeline from a definition.
#[utoipa::path(post, path = "/api/v1/organizations/{orgId}/pipelines", tag = "pipelines", request_body = PipelineNew,
    responses((status = 201, body = Data<Pipeline>)))]
pub(crate) async fn create_pipeline(
    State(app): State<Arc<App>>,
    Allowed(who): Allowed<permit::PipelinesWrite>,
    posted: Posted<PipelineNew>,
) -> Result<Outcome<Pipeline>, AppError> {
    let body = posted.body;
    let mut check = Check::default();
    let slug = check.required("/slug", Slug::parse(&body.slug));
    let name = check.optional("/name", body.name.as_deref(), DisplayName::parse);
    let source = check.required("/definition", source(body.definition));
    let (slug, source) = check.done(slug.zip(source))?;
    app.create_pipeline(&who, NewPipeline { slug, name, source }, posted.once).await
}

/// Validate a definition without saving it.
#[utoipa::path(post, path = "/api/v1/organizations/{orgId}/pipelines/validate", tag = "pipelines",
    request_body = DefinitionNew, responses((status = 200, body = Data<Validation>)))]
pub(crate) async fn validate_pipeline(
    State(app): State<Arc<App>>,
    Allowed(who): Allowed<permit::PipelinesRead>,
    posted: Posted<DefinitionNew>,
) -> Result<Answer<Validation>, AppError> {
    let mut check = Check::default();
    let source = check.required("/definition", source(posted.body.definition));
    app.validate_definition(&who, check.done(source)?).await
}

/// Plan a definition, or a pipeline's current one. Shows which steps would run where and with which values. Nothing is
/// saved.
#[utoipa::path(post, path = "/api/v1/organizations/{orgId}/pipelines/plan", tag = "pipelines",
    request_body = PlanNew, responses((status = 200, body = Data<Plan>)))]
pub(crate) async fn plan_pipeline(
    State(app): State<Arc<App>>,
    Allowed(who): Allowed<permit::PipelinesRead>,
    posted: Posted<PlanNew>,
) -> Result<Answer<Plan>, AppError> {
    let body = posted.body;
    let mut check = Check::default();
    let of = match (body.definition, body.pipeline_id) {
        (Some(definition), None) => source(definition).map(PlanOf::Source),
        (None, Some(key)) => Ok(PlanOf::Pipeline(key)),
        (Some(_), Some(_)) | (None, None) => Err("send either `definition` or `pipelineId`"),
    };
    let of = check.required("/definition", of);
    let environment = check.optional("/environment", body.environment.as_deref(), EnvName::parse);
    let commit = check.optional("/commitId", body.commit_id.as_deref(), CommitId::parse);
    let of = check.done(of)?;
    app.plan_pipeline(&who, PlanAsked { of, environment, commit }).await
}

/// Get a pipeline by id or slug.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}/pipelines/{pipelineId}", tag = "pipelines",
    responses((status = 200, body = Data<Pipeline>)))]
pub(crate) async fn view_pipeline(
    State(app): State<Arc<App>>,
    Allowed(who): Allowed<permit::PipelinesRead>,
    Path((_, key)): Path<(String, String)>,
) -> Result<Answer<Pipeline>, AppError> {
    app.view_pipeline(&who, key).await
}

/// Delete a pipeline. Its events and deployments are kept. Fails while one of its environments is held, unless `force`
/// is true.
#[utoipa::path(delete, path = "/api/v1/organizations/{orgId}/pipelines/{pipelineId}", tag = "pipelines",
    params(("force" = Option<bool>, Query, description = "End active sessions in its environments")),
    responses((status = 200, body = Data<Pipeline>)))]
pub(crate) async fn delete_pipeline(
    State(app): State<Arc<App>>,
    Allowed(who): Allowed<permit::PipelinesWrite>,
    Path((_, key)): Path<(String, String)>,
    IfMatch(expected): IfMatch,
    params: Params,
) -> Result<Outcome<Pipeline>, AppError> {
    let while_held = params.parsed::<bool>("force")?.unwrap_or(false);
    app.delete_pipeline(&who, key, expected, while_held).await
}

/// Get the source of a pipeline's definition.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}/pipelines/{pipelineId}/definition", tag = "pipelines",
    responses((status = 200, body = Data<Definition>)))]
pub(crate) async fn view_definition(
    State(app): State<Arc<App>>,
    Allowed(who): Allowed<permit::PipelinesRead>,
    Path((_, key)): Path<(String, String)>,
) -> Result<Answer<Definition>, AppError> {
    app.view_definition(&who, key).await
}

/// Replace a pipeline's definition.
#[utoipa::path(put, path = "/api/v1/organizations/{orgId}/pipelines/{pipelineId}/definition", tag = "pipelines",
    request_body = DefinitionNew, responses((status = 200, body = Data<Pipeline>)))]
pub(crate) async fn put_definition(
    State(app): State<Arc<App>>,
    Allowed(who): Allowed<permit::PipelinesWrite>,
    Path((_, key)): Path<(String, String)>,
    IfMatch(expected): IfMatch,
    Sent(body): Sent<DefinitionNew>,
) -> Result<Outcome<Pipeline>, AppError> {
    let mut check = Check::default();
    let source = check.required("/definition", source(body.definition));
    app.redefine_pipeline(&who, key, check.done(source)?, expected).await
}

/// Stop a pipeline. No new deployments start; running ones finish. Stopping again has no effect.
#[utoipa::path(post, path = "/api/v1/organizations/{orgId}/pipelines/{pipelineId}/stop", tag = "pipelines",
    request_body = Option<Because>, responses((status = 200, body = Data<Pipeline>)))]
pub(crate) async fn stop_pipeline(
    State(app): State<Arc<App>>,
    Allowed(who): Allowed<permit::PipelinesOperate>,
    Path((_, key)): Path<(String, String)>,
    IfMatch(expected): IfMatch,
    posted: Posted<Because>,
) -> Result<Outcome<Pipeline>, AppError> {
    app.stop_pipeline(&who, key, reason(&posted.body)?, expected, posted.once).await
}

/// Resume a pipeline. Deployments start again, and promotion into stages that were rolled back continues. Has no effect
/// if nothing is stopped or paused.
#[utoipa::path(post, path = "/api/v1/organizations/{orgId}/pipelines/{pipelineId}/resume", tag = "pipelines",
    request_body = Option<Because>, responses((status = 200, body = Data<Pipeline>)))]
pub(crate) async fn resume_pipeline(
    State(app): State<Arc<App>>,
    Allowed(who): Allowed<permit::PipelinesOperate>,
    Path((_, key)): Path<(String, String)>,
    IfMatch(expected): IfMatch,
    posted: Posted<Because>,
) -> Result<Outcome<Pipeline>, AppError> {
    app.resume_pipeline(&who, key, reason(&posted.body)?, expected, posted.once).await
}

fn reason(body: &Because) -> Result<Option<Reason>, AppError> {
    let mut check = Check::default();
    let reason = check.optional("/reason", body.reason.as_deref(), Reason::parse);
    check.done(Some(reason))
}

/// The source text of a definition. An object is stored as JSON text, which is also valid YAML.
fn source(definition: DefinitionText) -> Result<String, &'static str> {
    match definition {
        DefinitionText::Text(text) => Ok(text),
        DefinitionText::Object(object) => {
            serde_json::to_string_pretty(&object).map_err(|_| "cannot be written as JSON")
        }
    }
}
