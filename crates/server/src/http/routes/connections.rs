//! Endpoints for connecting repositories to their forges.

use std::sync::Arc;

use axum::extract::{Path, State};
use berth_api::Data;
use berth_api::connection::{
    ConnectionNew, ConnectionTest, ConnectionWithSecret, ForgeName, RepositoryConnection, WireHookDelivery,
};
use berth_api::page::List;
use berth_core::access::permit;
use berth_core::forge::ForgeKind;
use berth_store::tables::hook_delivery::HookDeliveryKey;

use crate::app::{ApiResponse, App, IdempotentResponse};
use crate::error::AppError;
use crate::http::access_control::RequirePermit;
use crate::http::body::PostBody;
use crate::http::query::{IfMatch, ListResponse, PageQuery};
use crate::http::routes::auth::EmptyBody;

/// Get the connection of a repository to its forge, without the secret.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}/repositories/{repositoryId}/connection",
    tag = "repositories", responses((status = 200, body = Data<RepositoryConnection>)))]
pub(crate) async fn view_connection(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::RepositoriesRead>,
    Path((_, key)): Path<(String, String)>,
) -> Result<ApiResponse<RepositoryConnection>, AppError> {
    app.view_connection(&who, key).await
}

/// Connect a repository to its forge. Creates a service account for its pull requests, and the webhook on the forge if
/// the repository has a credential for the forge's API. Otherwise `instructions` says what to enter on the forge, with
/// the `secret` that is returned only here.
#[utoipa::path(post, path = "/api/v1/organizations/{orgId}/repositories/{repositoryId}/connection",
    tag = "repositories", request_body = Option<ConnectionNew>,
    responses((status = 201, body = Data<ConnectionWithSecret>)))]
pub(crate) async fn connect_repository(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::RepositoriesWrite>,
    Path((_, key)): Path<(String, String)>,
    posted: PostBody<ConnectionNew>,
) -> Result<IdempotentResponse<ConnectionWithSecret>, AppError> {
    let forge = posted.body.forge.map(forge_from_wire);
    app.connect_repository(&who, key, forge, posted.idempotency_key).await
}

/// Disconnect a repository from its forge. Deletes the webhook on the forge if Berth created it, and removes the service
/// account. `error` says what is left to delete on the forge.
#[utoipa::path(delete, path = "/api/v1/organizations/{orgId}/repositories/{repositoryId}/connection",
    tag = "repositories", responses((status = 200, body = Data<RepositoryConnection>)))]
pub(crate) async fn disconnect_repository(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::RepositoriesWrite>,
    Path((_, key)): Path<(String, String)>,
    IfMatch(expected): IfMatch,
) -> Result<IdempotentResponse<RepositoryConnection>, AppError> {
    app.disconnect_repository(&who, key, expected).await
}

/// Ask the forge for a test delivery. When it arrives, `isVerified` of the connection becomes true.
#[utoipa::path(post, path = "/api/v1/organizations/{orgId}/repositories/{repositoryId}/connection/test",
    tag = "repositories", responses((status = 200, body = Data<ConnectionTest>)))]
pub(crate) async fn test_connection(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::RepositoriesWrite>,
    Path((_, key)): Path<(String, String)>,
    posted: PostBody<EmptyBody>,
) -> Result<IdempotentResponse<ConnectionTest>, AppError> {
    app.test_connection(&who, key, posted.idempotency_key).await
}

/// Rotate the secret of a connection. A webhook that Berth created is replaced; otherwise enter the new secret on the
/// forge. Deliveries with the previous secret are refused immediately.
#[utoipa::path(post, path = "/api/v1/organizations/{orgId}/repositories/{repositoryId}/connection/rotate",
    tag = "repositories", responses((status = 200, body = Data<ConnectionWithSecret>)))]
pub(crate) async fn rotate_connection(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::RepositoriesWrite>,
    Path((_, key)): Path<(String, String)>,
    posted: PostBody<EmptyBody>,
) -> Result<IdempotentResponse<ConnectionWithSecret>, AppError> {
    app.rotate_connection(&who, key, posted.idempotency_key).await
}

/// List the deliveries of a repository's forge, newest first. They are kept for 30 days.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}/repositories/{repositoryId}/deliveries",
    tag = "repositories", responses((status = 200, body = List<WireHookDelivery>)))]
pub(crate) async fn list_hook_deliveries(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::RepositoriesRead>,
    Path((_, key)): Path<(String, String)>,
    paging: PageQuery,
) -> Result<ListResponse<WireHookDelivery>, AppError> {
    let page = app.list_hook_deliveries(&who, key, paging.start::<HookDeliveryKey>()?, paging.limit).await?;
    Ok(paging.list(page))
}

fn forge_from_wire(sent: ForgeName) -> ForgeKind {
    match sent {
        ForgeName::Github => ForgeKind::GitHub,
        ForgeName::Gitlab => ForgeKind::GitLab,
        ForgeName::Gitea => ForgeKind::Gitea,
        ForgeName::Bitbucket => ForgeKind::Bitbucket,
    }
}
