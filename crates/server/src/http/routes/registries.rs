//! Endpoints for step registries and their builds.

use std::sync::Arc;

use axum::extract::{Path, State};
use berth_api::Data;
use berth_api::page::List;
use berth_api::registry::{
    StepRegistry, StepRegistryBuild, StepRegistryBuildLog, StepRegistryNew, StepRegistryPatch,
    StepRegistryStep,
};
use berth_core::access::permit;
use berth_core::id::RegistryId;
use berth_core::name::CommitId;
use berth_core::pipeline::grammar::SecretName;
use berth_core::registry::RegistryName;
use berth_core::repository::RemoteUrl;

use crate::app::{ApiResponse, App, BuildLogPart, IdempotentResponse, NewRegistry, RegistryChange};
use crate::error::AppError;
use crate::http::access_control::RequirePermit;
use crate::http::body::{JsonBody, PostBody};
use crate::http::input_checker::InputChecker;
use crate::http::query::{IfMatch, ListResponse, PageQuery, QueryParams};
use crate::http::routes::auth::EmptyBody;
use crate::limits::{BUILD_LOG_LINES_MAX, OFFSET_MAX};

/// List step registries, oldest first.
#[utoipa::path(get, operation_id = "listStepRegistries", path = "/api/v1/organizations/{orgId}/step-registries", tag = "step registries",
    responses((status = 200, body = List<StepRegistry>)))]
pub(crate) async fn list_registries(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::RegistriesRead>,
    paging: PageQuery,
) -> Result<ListResponse<StepRegistry>, AppError> {
    let page = app.list_registries(&who, paging.start::<RegistryId>()?, paging.limit).await?;
    Ok(paging.list(page))
}

/// Create a step registry. It is fetched and built immediately; its steps can be used once its status is `ready`.
#[utoipa::path(post, operation_id = "createStepRegistry", path = "/api/v1/organizations/{orgId}/step-registries", tag = "step registries",
    request_body = StepRegistryNew, responses((status = 201, body = Data<StepRegistry>)))]
pub(crate) async fn create_registry(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::RegistriesWrite>,
    posted: PostBody<StepRegistryNew>,
) -> Result<IdempotentResponse<StepRegistry>, AppError> {
    let body = posted.body;
    let mut check = InputChecker::default();
    let name = check.require("/name", RegistryName::parse(&body.name));
    let url = check.require("/url", RemoteUrl::parse(&body.url));
    let reference = check.optional("/ref", body.r#ref.as_deref(), CommitId::parse);
    let credential = check.optional("/credential", body.credential.as_deref(), SecretName::parse);
    let (name, url) = check.finish(name.zip(url))?;
    app.create_registry(&who, NewRegistry { name, url, reference, credential }, posted.idempotency_key).await
}

/// Get a step registry. Shows its last build, errors, and the pipelines that use it.
#[utoipa::path(get, operation_id = "getStepRegistry", path = "/api/v1/organizations/{orgId}/step-registries/{registryId}", tag = "step registries",
    responses((status = 200, body = Data<StepRegistry>)))]
pub(crate) async fn view_registry(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::RegistriesRead>,
    Path((_, key)): Path<(String, String)>,
) -> Result<ApiResponse<StepRegistry>, AppError> {
    app.view_registry(&who, key).await
}

/// Update a step registry's ref or credential. Starts a sync.
#[utoipa::path(patch, operation_id = "updateStepRegistry", path = "/api/v1/organizations/{orgId}/step-registries/{registryId}", tag = "step registries",
    request_body = Option<StepRegistryPatch>, responses((status = 200, body = Data<StepRegistry>)))]
pub(crate) async fn update_registry(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::RegistriesWrite>,
    Path((_, key)): Path<(String, String)>,
    IfMatch(expected): IfMatch,
    JsonBody(body): JsonBody<StepRegistryPatch>,
) -> Result<IdempotentResponse<StepRegistry>, AppError> {
    let mut check = InputChecker::default();
    let given = |sent: &Option<String>| sent.clone().filter(|text| !text.is_empty());
    let reference = check.optional("/ref", given(&body.r#ref).as_deref(), CommitId::parse);
    let credential = check.optional("/credential", given(&body.credential).as_deref(), SecretName::parse);
    check.finish(Some(()))?;
    let change = RegistryChange {
        reference: body.r#ref.map(|_| reference),
        credential: body.credential.map(|_| credential),
    };
    app.change_registry(&who, key, change, expected).await
}

/// Delete a step registry. Fails while definitions use its steps, unless `force` is true. Running steps are not
/// affected.
#[utoipa::path(delete, operation_id = "deleteStepRegistry", path = "/api/v1/organizations/{orgId}/step-registries/{registryId}", tag = "step registries",
    params(("force" = Option<bool>, Query, description = "Delete it even if definitions use its steps")),
    responses((status = 200, body = Data<StepRegistry>)))]
pub(crate) async fn delete_registry(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::RegistriesWrite>,
    Path((_, key)): Path<(String, String)>,
    IfMatch(expected): IfMatch,
    params: QueryParams,
) -> Result<IdempotentResponse<StepRegistry>, AppError> {
    let force = params.parse::<bool>("force")?.unwrap_or(false);
    app.delete_registry(&who, key, force, expected).await
}

/// Sync a step registry. A commit that is already built is not built again; one whose build failed is.
#[utoipa::path(post, operation_id = "syncStepRegistry", path = "/api/v1/organizations/{orgId}/step-registries/{registryId}/sync", tag = "step registries",
    responses((status = 202, body = Data<StepRegistry>)))]
pub(crate) async fn sync_registry(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::RegistriesWrite>,
    Path((_, key)): Path<(String, String)>,
    posted: PostBody<EmptyBody>,
) -> Result<IdempotentResponse<StepRegistry>, AppError> {
    app.sync_registry(&who, key, posted.idempotency_key).await
}

/// List the steps of a registry. Returns the steps of its last good version with their schemas, documentation and
/// users.
#[utoipa::path(get, operation_id = "listStepRegistrySteps", path = "/api/v1/organizations/{orgId}/step-registries/{registryId}/steps", tag = "step registries",
    responses((status = 200, body = List<StepRegistryStep>)))]
pub(crate) async fn list_registry_steps(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::RegistriesRead>,
    Path((_, key)): Path<(String, String)>,
    paging: PageQuery,
) -> Result<ListResponse<StepRegistryStep>, AppError> {
    let page = app.list_registry_steps(&who, key, paging.start::<String>()?, paging.limit).await?;
    Ok(paging.list(page))
}

/// List a registry's builds, newest first. The last 50 are kept.
#[utoipa::path(get, operation_id = "listStepRegistryBuilds", path = "/api/v1/organizations/{orgId}/step-registries/{registryId}/builds", tag = "step registries",
    responses((status = 200, body = List<StepRegistryBuild>)))]
pub(crate) async fn list_registry_builds(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::RegistriesRead>,
    Path((_, key)): Path<(String, String)>,
    paging: PageQuery,
) -> Result<ListResponse<StepRegistryBuild>, AppError> {
    let page = app.list_registry_builds(&who, key, paging.start::<i64>()?, paging.limit).await?;
    Ok(paging.list(page))
}

/// Get the log of a build, even while it is running.
#[utoipa::path(get, operation_id = "getStepRegistryBuildLog", tag = "step registries",
    path = "/api/v1/organizations/{orgId}/step-registries/{registryId}/builds/{buildNumber}/logs",
    params(("fromLine" = Option<i64>, Query, minimum = 1, description = "First line to return, starting at 1"),
           ("toLine" = Option<i64>, Query, minimum = 1, description = "Last line to return"),
           ("tail" = Option<i64>, Query, minimum = 1, maximum = 5000, description = "Return this many of the last lines, instead of `fromLine` and `toLine`")),
    responses((status = 200, body = Data<StepRegistryBuildLog>)))]
pub(crate) async fn view_registry_build_log(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::RegistriesRead>,
    Path((_, key, number)): Path<(String, String, String)>,
    params: QueryParams,
) -> Result<ApiResponse<StepRegistryBuildLog>, AppError> {
    let line = |name, most| {
        let number = params.integer(name, 1, most)?;
        Ok::<_, AppError>(number.and_then(|number| u64::try_from(number).ok()))
    };
    let (from, to) = (line("fromLine", OFFSET_MAX)?, line("toLine", OFFSET_MAX)?);
    let part = match (line("tail", BUILD_LOG_LINES_MAX as i64)?, from, to) {
        (Some(lines), None, None) => BuildLogPart::Tail(lines),
        (Some(_), _, _) => {
            return Err(AppError::invalid_parameter("tail", "cannot be combined with fromLine or toLine"));
        }
        (None, Some(from), Some(to)) if to < from => {
            return Err(AppError::invalid_parameter("toLine", "must not be before fromLine"));
        }
        (None, from, to) => BuildLogPart::Lines { from: from.unwrap_or(1), to: to.unwrap_or(u64::MAX) },
    };
    app.view_registry_build_log(&who, key, number.parse().ok(), part).await
}
