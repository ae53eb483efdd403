//! Endpoints for repositories.

use std::sync::Arc;

use axum::extract::{Path, State};
use berth_api::Data;
use berth_api::page::List;
use berth_api::repository::{RepositoryNew, RepositoryPatch, WireRepository};
use berth_core::access::permit;
use berth_core::id::RepositoryId;
use berth_core::pipeline::grammar::SecretName;
use berth_core::repository::{POLL_SECONDS_MAX, POLL_SECONDS_MIN, RemoteUrl};

use crate::app::{ApiResponse, App, IdempotentResponse, NewRepository, RepositoryChange};
use crate::error::AppError;
use crate::http::access_control::RequirePermit;
use crate::http::body::{JsonBody, PostBody};
use crate::http::input_checker::InputChecker;
use crate::http::query::{IfMatch, ListResponse, PageQuery, QueryParams};
use crate::http::routes::auth::EmptyBody;

/// List repositories, oldest first.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}/repositories", tag = "repositories",
    responses((status = 200, body = List<WireRepository>)))]
pub(crate) async fn list_repositories(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::RepositoriesRead>,
    paging: PageQuery,
) -> Result<ListResponse<WireRepository>, AppError> {
    let page = app.list_repositories(&who, paging.start::<RepositoryId>()?, paging.limit).await?;
    Ok(paging.list(page))
}

/// Create a repository. The first sync starts immediately and creates its pipelines.
#[utoipa::path(post, path = "/api/v1/organizations/{orgId}/repositories", tag = "repositories",
    request_body = RepositoryNew, responses((status = 201, body = Data<WireRepository>)))]
pub(crate) async fn create_repository(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::RepositoriesWrite>,
    posted: PostBody<RepositoryNew>,
) -> Result<IdempotentResponse<WireRepository>, AppError> {
    let body = posted.body;
    let mut check = InputChecker::default();
    let url = check.require("/url", RemoteUrl::parse(&body.url));
    let credential = check.optional("/credential", body.credential.as_deref(), SecretName::parse);
    let poll_seconds = check_poll_seconds(&mut check, body.poll_seconds);
    let (url, poll_seconds) = check.finish(url.zip(poll_seconds))?;
    let new = NewRepository { url, credential, poll_seconds, is_partial: body.is_partial.unwrap_or(false) };
    app.create_repository(&who, new, posted.idempotency_key).await
}

/// Get a repository. Shows the result of its last sync.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}/repositories/{repositoryId}", tag = "repositories",
    responses((status = 200, body = Data<WireRepository>)))]
pub(crate) async fn view_repository(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::RepositoriesRead>,
    Path((_, key)): Path<(String, String)>,
) -> Result<ApiResponse<WireRepository>, AppError> {
    app.view_repository(&who, key).await
}

/// Update a repository's URL, credential or poll interval. Starts a sync.
#[utoipa::path(patch, path = "/api/v1/organizations/{orgId}/repositories/{repositoryId}", tag = "repositories",
    request_body = Option<RepositoryPatch>, responses((status = 200, body = Data<WireRepository>)))]
pub(crate) async fn update_repository(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::RepositoriesWrite>,
    Path((_, key)): Path<(String, String)>,
    IfMatch(expected): IfMatch,
    JsonBody(body): JsonBody<RepositoryPatch>,
) -> Result<IdempotentResponse<WireRepository>, AppError> {
    let mut check = InputChecker::default();
    let url = check.optional("/url", body.url.as_deref(), RemoteUrl::parse);
    let named = body.credential.as_deref().filter(|name| !name.is_empty());
    let named = check.optional("/credential", named, SecretName::parse);
    let poll_seconds = check_poll_seconds(&mut check, body.poll_seconds);
    let poll_seconds = check.finish(poll_seconds)?;
    let credential = body.credential.map(|_| named);
    app.change_repository(&who, key, RepositoryChange { url, credential, poll_seconds }, expected).await
}

/// Delete a repository. Fails while pipelines are defined in it, unless `force` is true; those pipelines then keep
/// their current definitions.
#[utoipa::path(delete, path = "/api/v1/organizations/{orgId}/repositories/{repositoryId}", tag = "repositories",
    params(("force" = Option<bool>, Query, description = "Delete it even if pipelines are defined in it")),
    responses((status = 200, body = Data<WireRepository>)))]
pub(crate) async fn delete_repository(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::RepositoriesWrite>,
    Path((_, key)): Path<(String, String)>,
    IfMatch(expected): IfMatch,
    params: QueryParams,
) -> Result<IdempotentResponse<WireRepository>, AppError> {
    let force = params.parse::<bool>("force")?.unwrap_or(false);
    app.delete_repository(&who, key, force, expected).await
}

/// Sync a repository. `lastSyncedAt` changes when the sync has finished.
#[utoipa::path(post, path = "/api/v1/organizations/{orgId}/repositories/{repositoryId}/sync", tag = "repositories",
    responses((status = 202, body = Data<WireRepository>)))]
pub(crate) async fn sync_repository(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::RepositoriesWrite>,
    Path((_, key)): Path<(String, String)>,
    posted: PostBody<EmptyBody>,
) -> Result<IdempotentResponse<WireRepository>, AppError> {
    app.sync_repository(&who, key, posted.idempotency_key).await
}

fn check_poll_seconds(check: &mut InputChecker, sent: Option<i64>) -> Option<Option<i64>> {
    let is_good = sent.is_none_or(|sent| (POLL_SECONDS_MIN..=POLL_SECONDS_MAX).contains(&sent));
    check.require("/pollSeconds", if is_good { Ok(sent) } else { Err("must be 10 to 86,400 seconds") })
}
