//! Endpoints for secrets.

use std::sync::Arc;

use axum::extract::{Path, State};
use berth_api::Data;
use berth_api::page::List;
use berth_api::secret::{ScopeKind, ScopeNew, SecretNew, SecretPatch, SecretPut, WireSecret};
use berth_core::access::permit;
use berth_core::id::SecretId;
use berth_core::name::Reason;
use berth_core::pipeline::grammar::{SecretName, StageName};
use berth_core::secret::check_value;
use berth_engine::credential::RedactedString;

use crate::app::{ApiResponse, App, IdempotentResponse, NewScope, NewSecret, SecretChange};
use crate::error::AppError;
use crate::http::access_control::RequirePermit;
use crate::http::body::{JsonBody, PostBody};
use crate::http::input_checker::InputChecker;
use crate::http::query::{IfMatch, ListResponse, PageQuery, QueryParams};

/// List secrets, without their values.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}/secrets", tag = "secrets",
    responses((status = 200, body = List<WireSecret>)))]
pub(crate) async fn list_secrets(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::SecretsRead>,
    paging: PageQuery,
) -> Result<ListResponse<WireSecret>, AppError> {
    let page = app.list_secrets(&who, paging.start::<SecretId>()?, paging.limit).await?;
    Ok(paging.list(page))
}

/// Create a secret. Its value is never returned.
#[utoipa::path(post, path = "/api/v1/organizations/{orgId}/secrets", tag = "secrets", request_body = SecretNew,
    responses((status = 201, body = Data<WireSecret>)))]
pub(crate) async fn create_secret(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::SecretsWrite>,
    posted: PostBody<SecretNew>,
) -> Result<IdempotentResponse<WireSecret>, AppError> {
    let body = posted.body;
    let mut check = InputChecker::default();
    let name = check.require("/name", SecretName::parse(&body.name));
    let value = check_secret_value(&mut check, body.value);
    let description = check.optional("/description", body.description.as_deref(), Reason::parse);
    let scope = body.scope.map_or(Some(NewScope::Organization), |scope| new_scope(&mut check, scope));
    let ((name, value), scope) = check.finish(name.zip(value).zip(scope))?;
    app.create_secret(&who, NewSecret { name, value, description, scope }, posted.idempotency_key).await
}

/// Get a secret by id, or by name if its scope is the organization. Its value is never returned.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}/secrets/{secretId}", tag = "secrets",
    responses((status = 200, body = Data<WireSecret>)))]
pub(crate) async fn view_secret(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::SecretsRead>,
    Path((_, key)): Path<(String, String)>,
) -> Result<ApiResponse<WireSecret>, AppError> {
    app.view_secret(&who, key).await
}

/// Set the value of a secret.
#[utoipa::path(put, path = "/api/v1/organizations/{orgId}/secrets/{secretId}", tag = "secrets",
    request_body = SecretPut, responses((status = 200, body = Data<WireSecret>)))]
pub(crate) async fn put_secret(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::SecretsWrite>,
    Path((_, key)): Path<(String, String)>,
    IfMatch(expected): IfMatch,
    JsonBody(body): JsonBody<SecretPut>,
) -> Result<IdempotentResponse<WireSecret>, AppError> {
    let change = secret_change(Some(body.value), body.description.as_deref())?;
    app.change_secret(&who, key, change, expected).await
}

/// Update the value or description of a secret.
#[utoipa::path(patch, path = "/api/v1/organizations/{orgId}/secrets/{secretId}", tag = "secrets",
    request_body = Option<SecretPatch>, responses((status = 200, body = Data<WireSecret>)))]
pub(crate) async fn update_secret(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::SecretsWrite>,
    Path((_, key)): Path<(String, String)>,
    IfMatch(expected): IfMatch,
    JsonBody(body): JsonBody<SecretPatch>,
) -> Result<IdempotentResponse<WireSecret>, AppError> {
    let change = secret_change(body.value, body.description.as_deref())?;
    app.change_secret(&who, key, change, expected).await
}

/// Delete a secret and its values. Fails while a definition uses it, unless `force` is true.
#[utoipa::path(delete, path = "/api/v1/organizations/{orgId}/secrets/{secretId}", tag = "secrets",
    params(("force" = Option<bool>, Query, description = "Delete it even if definitions use it")),
    responses((status = 200, body = Data<WireSecret>)))]
pub(crate) async fn delete_secret(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::SecretsWrite>,
    Path((_, key)): Path<(String, String)>,
    IfMatch(expected): IfMatch,
    params: QueryParams,
) -> Result<IdempotentResponse<WireSecret>, AppError> {
    let force = params.parse::<bool>("force")?.unwrap_or(false);
    app.delete_secret(&who, key, force, expected).await
}

fn secret_change(sent: Option<String>, description: Option<&str>) -> Result<SecretChange, AppError> {
    let mut check = InputChecker::default();
    let value =
        sent.map(|sent| check_secret_value(&mut check, sent)).map_or(Some(None), |value| value.map(Some));
    let description = check.optional("/description", description, Reason::parse);
    Ok(SecretChange { value: check.finish(value)?, description })
}

fn check_secret_value(check: &mut InputChecker, sent: String) -> Option<RedactedString> {
    let value = RedactedString::new(sent);
    let checked = check_value(value.reveal()).map(|()| value.clone());
    check.require("/value", checked)
}

fn new_scope(check: &mut InputChecker, sent: ScopeNew) -> Option<NewScope> {
    let pipeline = sent.pipeline_id.ok_or("is required for this type of scope");
    match sent.kind {
        ScopeKind::Organization => {
            let nothing = if pipeline.is_ok() || sent.stage.is_some() {
                Err("of type organization must not have a pipeline or stage")
            } else {
                Ok(())
            };
            check.require("/scope", nothing).map(|()| NewScope::Organization)
        }
        ScopeKind::Pipeline => {
            let nothing =
                if sent.stage.is_some() { Err("is only allowed with the type stage") } else { Ok(()) };
            let pipeline = check.require("/scope/pipelineId", pipeline);
            check.require("/scope/stage", nothing).and(pipeline).map(NewScope::Pipeline)
        }
        ScopeKind::Stage => {
            let pipeline = check.require("/scope/pipelineId", pipeline);
            let stage = StageName::parse(sent.stage.as_deref().unwrap_or_default());
            let stage = check.require("/scope/stage", stage);
            pipeline.zip(stage).map(|(pipeline, stage)| NewScope::Stage(pipeline, stage))
        }
    }
}
