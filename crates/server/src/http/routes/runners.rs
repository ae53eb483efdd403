//! Endpoints to manage runners.

use std::str::FromStr;
use std::sync::Arc;

use axum::extract::{Path, State};
use berth_api::Data;
use berth_api::page::List;
use berth_api::runners::{Runner, RunnerCreated, RunnerNew};
use berth_core::access::permit;
use berth_core::id::{InvalidId, RunnerId};
use berth_core::name::Slug;
use berth_core::runner::EMBEDDED;

use crate::app::{Answer, App, Outcome};
use crate::error::AppError;
use crate::http::body::Posted;
use crate::http::check::Check;
use crate::http::guard::Allowed;
use crate::http::query::{IfMatch, Listed, Paging};

/// List runners, oldest first. The embedded runner comes first.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}/runners", tag = "runners",
    responses((status = 200, body = List<Runner>)))]
pub(crate) async fn list_runners(
    State(app): State<Arc<App>>,
    Allowed(who): Allowed<permit::RunnersRead>,
    paging: Paging,
) -> Result<Listed<Runner>, AppError> {
    let page = app.list_runners(&who, paging.start::<Key>()?, paging.limit).await?;
    Ok(paging.list(page))
}

/// Create a runner. Its registration token is returned only here, works once and expires after an hour.
#[utoipa::path(post, path = "/api/v1/organizations/{orgId}/runners", tag = "runners",
    request_body = Option<RunnerNew>, responses((status = 201, body = Data<RunnerCreated>)))]
pub(crate) async fn create_runner(
    State(app): State<Arc<App>>,
    Allowed(who): Allowed<permit::RunnersWrite>,
    posted: Posted<RunnerNew>,
) -> Result<Outcome<RunnerCreated>, AppError> {
    let mut check = Check::default();
    let name = check.optional("/name", posted.body.name.as_deref(), Slug::parse);
    check.done(Some(()))?;
    app.create_runner(&who, name, &posted.body.labels, posted.once).await
}

/// Get a runner and the steps it is running.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}/runners/{runnerId}", tag = "runners",
    responses((status = 200, body = Data<Runner>)))]
pub(crate) async fn view_runner(
    State(app): State<Arc<App>>,
    Allowed(who): Allowed<permit::RunnersRead>,
    Path((_, key)): Path<(String, String)>,
) -> Result<Answer<Runner>, AppError> {
    app.view_runner(&who, key).await
}

/// Delete a runner. Its credential is revoked immediately, and it stops its running steps.
#[utoipa::path(delete, path = "/api/v1/organizations/{orgId}/runners/{runnerId}", tag = "runners",
    responses((status = 200, body = Data<Runner>)))]
pub(crate) async fn delete_runner(
    State(app): State<Arc<App>>,
    Allowed(who): Allowed<permit::RunnersWrite>,
    Path((_, key)): Path<(String, String)>,
    IfMatch(expected): IfMatch,
) -> Result<Outcome<Runner>, AppError> {
    app.delete_runner(&who, key, expected).await
}

/// Key in the cursors of this list: an id, or `embedded`.
struct Key;

impl FromStr for Key {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        if text == EMBEDDED { Ok(Self) } else { text.parse::<RunnerId>().map(|_| Self) }
    }
}
