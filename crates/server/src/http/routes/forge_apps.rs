//! Endpoints for GitHub Apps that connect repositories.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};
use berth_api::Data;
use berth_api::environment::All;
use berth_api::forge_app::{AppConnection, AppConnectionNew, CreatedForgeApp, ForgeAppNew, WireForgeApp};
use berth_core::access::permit;
use berth_core::id::ForgeAppId;
use http::header::{CONTENT_SECURITY_POLICY, HeaderValue};

use crate::app::{App, IdempotentResponse};
use crate::error::AppError;
use crate::http::access_control::RequirePermit;
use crate::http::body::PostBody;
use crate::http::edge::content_security_policy;
use crate::http::pages;
use crate::http::query::QueryParams;

/// List the organization's GitHub Apps.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}/forge-apps", tag = "repositories",
    responses((status = 200, body = All<WireForgeApp>)))]
pub(crate) async fn list_forge_apps(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::RepositoriesRead>,
) -> Result<Json<All<WireForgeApp>>, AppError> {
    Ok(Json(All { data: app.list_forge_apps(&who).await? }))
}

/// Connect a repository through the organization's GitHub App on its forge. `status` says what is left to do: open `url`
/// to create the app or to install it, and repeat the request.
#[utoipa::path(post, path = "/api/v1/organizations/{orgId}/repositories/{repositoryId}/connection/app",
    tag = "repositories", request_body = Option<AppConnectionNew>,
    responses((status = 200, body = Data<AppConnection>)))]
pub(crate) async fn connect_repository_with_app(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::RepositoriesWrite>,
    Path((_, key)): Path<(String, String)>,
    posted: PostBody<AppConnectionNew>,
) -> Result<IdempotentResponse<AppConnection>, AppError> {
    let is_personal = posted.body.is_personal.unwrap_or(false);
    app.connect_with_app(&who, key, is_personal, posted.idempotency_key).await
}

/// Get the page that sends the manifest of a GitHub App to the forge. Works only in the browser that started to create
/// the app.
#[utoipa::path(get, operation_id = "getForgeAppForm", path = "/api/v1/organizations/{orgId}/forge-apps/form",
    tag = "repositories", params(("state" = String, Query, description = "State of the setup")),
    responses((status = 200, content_type = "text/html", body = String)))]
pub(crate) async fn view_manifest_form(
    State(app): State<Arc<App>>,
    params: QueryParams,
    RequirePermit(who): RequirePermit<permit::RepositoriesWrite>,
) -> Result<Response, AppError> {
    let state = params.text("state")?;
    let state = state.ok_or_else(|| AppError::invalid_parameter("state", "is required"))?;
    let form = app.view_manifest_form(&who, state).await?;
    let policy = content_security_policy(&format!("'self' {}", form.origin));
    let policy = HeaderValue::try_from(policy);
    let policy = policy.map_err(|_| AppError::bug("the origin of a forge is not a header value"))?;
    let page = pages::manifest_form(&form.action, &form.manifest.to_string(), &form.origin);
    Ok(([(CONTENT_SECURITY_POLICY, policy)], page).into_response())
}

/// Create a GitHub App from the code with which the forge redirected the browser. Works once, and only in the browser
/// that started the setup.
#[utoipa::path(post, path = "/api/v1/organizations/{orgId}/forge-apps", tag = "repositories",
    request_body = ForgeAppNew, responses((status = 201, body = Data<CreatedForgeApp>)))]
pub(crate) async fn create_forge_app(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::RepositoriesWrite>,
    posted: PostBody<ForgeAppNew>,
) -> Result<IdempotentResponse<CreatedForgeApp>, AppError> {
    app.create_forge_app(&who, posted.body, posted.idempotency_key).await
}

/// Delete a GitHub App and its private key. Fails with 409 while repositories are connected through it. Delete the app on
/// the forge yourself.
#[utoipa::path(delete, path = "/api/v1/organizations/{orgId}/forge-apps/{appId}", tag = "repositories",
    responses((status = 200, body = Data<WireForgeApp>)))]
pub(crate) async fn delete_forge_app(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::RepositoriesWrite>,
    Path((_, id)): Path<(String, String)>,
) -> Result<IdempotentResponse<WireForgeApp>, AppError> {
    let id: ForgeAppId = id.parse().map_err(|_| AppError::not_found("GitHub App"))?;
    app.delete_forge_app(&who, id).await
}
