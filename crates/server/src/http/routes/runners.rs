//! Endpoints for managing runners.

use std::str::FromStr;
use std::sync::Arc;

use axum::extract::{Path, State};
use berth_api::Data;
use berth_api::page::List;
use berth_api::runners::{RunnerCreated, RunnerNew, WireRunner};
use berth_core::access::permit;
use berth_core::id::{InvalidId, RunnerId};
use berth_core::name::Slug;
use berth_core::runner::EMBEDDED;

use crate::app::{ApiResponse, App, IdempotentResponse};
use crate::error::AppError;
use crate::http::access_control::RequirePermit;
use crate::http::body::PostBody;
use crate::http::input_checker::InputChecker;
use crate::http::query::{IfMatch, ListResponse, PageQuery};

/// List runners, oldest first. The embedded runner comes first.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}/runners", tag = "runners",
    responses((status = 200, body = List<WireRunner>)))]
pub(crate) async fn list_runners(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::RunnersRead>,
    paging: PageQuery,
) -> Result<ListResponse<WireRunner>, AppError> {
    let page = app.list_runners(&who, paging.start::<RunnerCursor>()?, paging.limit).await?;
    Ok(paging.list(page))
}

/// Create a runner. Its registration token is returned only here, works once and expires after an hour.
#[utoipa::path(post, path = "/api/v1/organizations/{orgId}/runners", tag = "runners",
    request_body = Option<RunnerNew>, responses((status = 201, body = Data<RunnerCreated>)))]
pub(crate) async fn create_runner(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::RunnersWrite>,
    posted: PostBody<RunnerNew>,
) -> Result<IdempotentResponse<RunnerCreated>, AppError> {
    let mut check = InputChecker::default();
    let name = check.optional("/name", posted.body.name.as_deref(), Slug::parse);
    check.finish(Some(()))?;
    app.create_runner(&who, name, &posted.body.labels, posted.idempotency_key).await
}

/// Get a runner and the steps it is running.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}/runners/{runnerId}", tag = "runners",
    responses((status = 200, body = Data<WireRunner>)))]
pub(crate) async fn view_runner(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::RunnersRead>,
    Path((_, key)): Path<(String, String)>,
) -> Result<ApiResponse<WireRunner>, AppError> {
    app.view_runner(&who, key).await
}

/// Delete a runner. Its credential is revoked immediately, and it stops its running steps.
#[utoipa::path(delete, path = "/api/v1/organizations/{orgId}/runners/{runnerId}", tag = "runners",
    responses((status = 200, body = Data<WireRunner>)))]
pub(crate) async fn delete_runner(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::RunnersWrite>,
    Path((_, key)): Path<(String, String)>,
    IfMatch(expected): IfMatch,
) -> Result<IdempotentResponse<WireRunner>, AppError> {
    app.delete_runner(&who, key, expected).await
}

/// The key in this list's cursors: a runner's id, or `embedded`.
struct RunnerCursor;

impl FromStr for RunnerCursor {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        if text == EMBEDDED { Ok(Self) } else { text.parse::<RunnerId>().map(|_| Self) }
    }
}
