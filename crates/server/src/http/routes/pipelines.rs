//! Endpoints for pipelines.

use std::sync::Arc;

use axum::extract::{Path, State};
use berth_api::Data;
use berth_api::page::List;
use berth_api::pipeline::{
    Definition, DefinitionNew, DefinitionText, DefinitionValidation, PipelineNew, PipelineStatus, ReasonBody,
    WirePipeline,
};
use berth_api::plan::{PlanNew, WirePlan};
use berth_core::access::permit;
use berth_core::id::PipelineId;
use berth_core::name::{CommitId, DisplayName, EnvName, Reason, Slug};

use crate::app::{
    ApiResponse, App, IdempotentResponse, NewPipeline, PipelineFilter, PlanPreviewRequest, PlanSource,
};
use crate::error::AppError;
use crate::http::access_control::RequirePermit;
use crate::http::body::{JsonBody, PostBody};
use crate::http::input_checker::InputChecker;
use crate::http::query::{IfMatch, ListResponse, PageQuery, QueryParams};

/// List pipelines, oldest first.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}/pipelines", tag = "pipelines",
    params(("search" = Option<String>, Query, description = "Only pipelines whose slug or name contains this text"),
           ("status" = Option<PipelineStatus>, Query, description = "Only pipelines with this status")),
    responses((status = 200, body = List<WirePipeline>)))]
pub(crate) async fn list_pipelines(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::PipelinesRead>,
    paging: PageQuery,
) -> Result<ListResponse<WirePipeline>, AppError> {
    let filter = PipelineFilter {
        status: paging.params.one_of("status", &["active", "stopped"])?,
        search: paging.params.text("search")?,
    };
    let page = app.list_pipelines(&who, filter, paging.start::<PipelineId>()?, paging.limit).await?;
    Ok(paging.list(page))
}

/// Create a pipeline from a definition.
#[utoipa::path(post, path = "/api/v1/organizations/{orgId}/pipelines", tag = "pipelines", request_body = PipelineNew,
    responses((status = 201, body = Data<WirePipeline>)))]
pub(crate) async fn create_pipeline(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::PipelinesWrite>,
    posted: PostBody<PipelineNew>,
) -> Result<IdempotentResponse<WirePipeline>, AppError> {
    let body = posted.body;
    let mut check = InputChecker::default();
    let slug = check.require("/slug", Slug::parse(&body.slug));
    let name = check.optional("/name", body.name.as_deref(), DisplayName::parse);
    let source = check.require("/definition", definition_source(body.definition));
    let (slug, source) = check.finish(slug.zip(source))?;
    app.create_pipeline(&who, NewPipeline { slug, name, source }, posted.idempotency_key).await
}

/// Validate a definition without saving it.
#[utoipa::path(post, path = "/api/v1/organizations/{orgId}/pipelines/validate", tag = "pipelines",
    request_body = DefinitionNew, responses((status = 200, body = Data<DefinitionValidation>)))]
pub(crate) async fn validate_pipeline(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::PipelinesRead>,
    posted: PostBody<DefinitionNew>,
) -> Result<ApiResponse<DefinitionValidation>, AppError> {
    let mut check = InputChecker::default();
    let source = check.require("/definition", definition_source(posted.body.definition));
    app.validate_definition(&who, check.finish(source)?).await
}

/// Plan a definition, or a pipeline's current one. Shows which steps would run where and with which values. Nothing is
/// saved.
#[utoipa::path(post, path = "/api/v1/organizations/{orgId}/pipelines/plan", tag = "pipelines",
    request_body = PlanNew, responses((status = 200, body = Data<WirePlan>)))]
pub(crate) async fn plan_pipeline(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::PipelinesRead>,
    posted: PostBody<PlanNew>,
) -> Result<ApiResponse<WirePlan>, AppError> {
    let body = posted.body;
    let mut check = InputChecker::default();
    let of = match (body.definition, body.pipeline_id) {
        (Some(definition), None) => definition_source(definition).map(PlanSource::Source),
        (None, Some(key)) => Ok(PlanSource::Pipeline(key)),
        (Some(_), Some(_)) | (None, None) => Err("send either `definition` or `pipelineId`"),
    };
    let of = check.require("/definition", of);
    let environment = check.optional("/environment", body.environment.as_deref(), EnvName::parse);
    let commit = check.optional("/commitId", body.commit_id.as_deref(), CommitId::parse);
    let of = check.finish(of)?;
    app.plan_pipeline(&who, PlanPreviewRequest { of, environment, commit }).await
}

/// Get a pipeline by id or slug.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}/pipelines/{pipelineId}", tag = "pipelines",
    responses((status = 200, body = Data<WirePipeline>)))]
pub(crate) async fn view_pipeline(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::PipelinesRead>,
    Path((_, key)): Path<(String, String)>,
) -> Result<ApiResponse<WirePipeline>, AppError> {
    app.view_pipeline(&who, key).await
}

/// Delete a pipeline. Its events and deployments are kept. Fails while one of its environments is held, unless `force`
/// is true.
#[utoipa::path(delete, path = "/api/v1/organizations/{orgId}/pipelines/{pipelineId}", tag = "pipelines",
    params(("force" = Option<bool>, Query, description = "End active sessions in its environments")),
    responses((status = 200, body = Data<WirePipeline>)))]
pub(crate) async fn delete_pipeline(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::PipelinesWrite>,
    Path((_, key)): Path<(String, String)>,
    IfMatch(expected): IfMatch,
    params: QueryParams,
) -> Result<IdempotentResponse<WirePipeline>, AppError> {
    let while_held = params.parse::<bool>("force")?.unwrap_or(false);
    app.delete_pipeline(&who, key, expected, while_held).await
}

/// Get the source of a pipeline's definition.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}/pipelines/{pipelineId}/definition", tag = "pipelines",
    responses((status = 200, body = Data<Definition>)))]
pub(crate) async fn view_definition(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::PipelinesRead>,
    Path((_, key)): Path<(String, String)>,
) -> Result<ApiResponse<Definition>, AppError> {
    app.view_definition(&who, key).await
}

/// Replace a pipeline's definition.
#[utoipa::path(put, path = "/api/v1/organizations/{orgId}/pipelines/{pipelineId}/definition", tag = "pipelines",
    request_body = DefinitionNew, responses((status = 200, body = Data<WirePipeline>)))]
pub(crate) async fn put_definition(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::PipelinesWrite>,
    Path((_, key)): Path<(String, String)>,
    IfMatch(expected): IfMatch,
    JsonBody(body): JsonBody<DefinitionNew>,
) -> Result<IdempotentResponse<WirePipeline>, AppError> {
    let mut check = InputChecker::default();
    let source = check.require("/definition", definition_source(body.definition));
    app.redefine_pipeline(&who, key, check.finish(source)?, expected).await
}

/// Stop a pipeline. No new deployments start; running ones finish. Stopping again has no effect.
#[utoipa::path(post, path = "/api/v1/organizations/{orgId}/pipelines/{pipelineId}/stop", tag = "pipelines",
    request_body = Option<ReasonBody>, responses((status = 200, body = Data<WirePipeline>)))]
pub(crate) async fn stop_pipeline(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::PipelinesOperate>,
    Path((_, key)): Path<(String, String)>,
    IfMatch(expected): IfMatch,
    posted: PostBody<ReasonBody>,
) -> Result<IdempotentResponse<WirePipeline>, AppError> {
    app.stop_pipeline(&who, key, parse_reason(&posted.body)?, expected, posted.idempotency_key).await
}

/// Resume a pipeline. Deployments start again, and promotion into stages that were rolled back continues. Has no effect
/// if nothing is stopped or paused.
#[utoipa::path(post, path = "/api/v1/organizations/{orgId}/pipelines/{pipelineId}/resume", tag = "pipelines",
    request_body = Option<ReasonBody>, responses((status = 200, body = Data<WirePipeline>)))]
pub(crate) async fn resume_pipeline(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::PipelinesOperate>,
    Path((_, key)): Path<(String, String)>,
    IfMatch(expected): IfMatch,
    posted: PostBody<ReasonBody>,
) -> Result<IdempotentResponse<WirePipeline>, AppError> {
    app.resume_pipeline(&who, key, parse_reason(&posted.body)?, expected, posted.idempotency_key).await
}

pub(super) fn parse_reason(body: &ReasonBody) -> Result<Option<Reason>, AppError> {
    let mut check = InputChecker::default();
    let reason = check.optional("/reason", body.reason.as_deref(), Reason::parse);
    check.finish(Some(reason))
}

/// Returns the source text of a definition. A JSON object is stored as JSON text, which is also valid YAML.
fn definition_source(definition: DefinitionText) -> Result<String, &'static str> {
    match definition {
        DefinitionText::Text(text) => Ok(text),
        DefinitionText::Object(object) => {
            serde_json::to_string_pretty(&object).map_err(|_| "cannot be written as JSON")
        }
    }
}
