//! Liveness and readiness endpoints.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use berth_api::Data;
use berth_api::runner::Isolation;
use berth_store::tables::organization;
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::{ApiResponse, App};
use crate::error::AppError;

/// Timeout for the database check.
const READY_MAX: Duration = Duration::from_secs(5);

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Health {
    #[schema(example = "ok")]
    status: &'static str,
    version: &'static str,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Readiness {
    #[serde(flatten)]
    health: Health,
    /// Whether this server runs steps itself.
    runs_steps: bool,
    /// How steps and builds are isolated from the server's machine; null if it runs neither.
    isolation: Option<Isolation>,
    /// Whether the last access to object storage succeeded; null if logs and artifacts are in the data directory. The
    /// server stays ready while it does not: logs are buffered on its disk.
    object_storage: Option<StorageState>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StorageState {
    Up,
    Down,
}

const HEALTHY: Health = Health { status: "ok", version: env!("CARGO_PKG_VERSION") };

/// Check that the process is alive.
#[utoipa::path(get, operation_id = "getHealth", path = "/healthz", tag = "server", responses((status = 200, body = Data<Health>)))]
pub(crate) async fn healthz() -> ApiResponse<Health> {
    ApiResponse::ok(HEALTHY)
}

/// Check that the server can serve requests. Its database must be readable and writable, and it must not be shutting
/// down.
#[utoipa::path(get, operation_id = "getReadiness", path = "/readyz", tag = "server", responses((status = 200, body = Data<Readiness>)))]
pub(crate) async fn readyz(State(app): State<Arc<App>>) -> Result<ApiResponse<Readiness>, AppError> {
    if app.services.shutdown.is_cancelled() {
        return Err(AppError::busy("the server is stopping"));
    }
    if app.store().watch_failure().borrow().is_some() {
        return Err(AppError::busy("the database has failed; the server must be restarted"));
    }
    let probe_slug =
        berth_core::name::Slug::parse("readyz").map_err(|error| AppError::bug(error.to_string()))?;
    let read = app.store().read(None, move |db| Ok::<_, AppError>(organization::by_slug(db, &probe_slug)?));
    // This writes nothing, but proves that the database can start a write transaction.
    let write = app.store().transact_lease(|_| Ok::<_, AppError>(()));
    let both = tokio::time::timeout(READY_MAX, async { tokio::try_join!(read, write) }).await;
    both.map_err(|_| AppError::busy("the database does not respond"))??;
    let config = app.config();
    Ok(ApiResponse::ok(Readiness {
        health: HEALTHY,
        runs_steps: config.runner_labels.is_some(),
        isolation: config.isolation,
        object_storage: app.services.objects.as_ref().map(|objects| match objects.storage().is_up() {
            true => StorageState::Up,
            false => StorageState::Down,
        }),
    }))
}
