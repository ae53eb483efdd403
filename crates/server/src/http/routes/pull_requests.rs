//! Endpoints for pull requests.

use std::sync::Arc;

use axum::extract::{Path, State};
use berth_api::Data;
use berth_api::page::List;
use berth_api::pull_request::{PullRequestStateFilter, WirePullRequest};
use berth_core::access::permit;
use berth_core::forge::PullRequestStatus;
use berth_store::tables::pull_request::PullRequestCursor;

use crate::app::{ApiResponse, App, PullRequestFilter};
use crate::error::AppError;
use crate::http::access_control::RequirePermit;
use crate::http::query::{ListResponse, PageQuery};

/// List pull requests, newest first.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}/pull-requests", tag = "pull requests",
    params(("state" = Option<PullRequestStateFilter>, Query, description = "Only pull requests in this state, or `all`. Defaults to `open`"),
           ("repository" = Option<String>, Query, description = "Only pull requests of the repository with this id"),
           ("number" = Option<i64>, Query, minimum = 1, description = "Only pull requests with this number")),
    responses((status = 200, body = List<WirePullRequest>)))]
pub(crate) async fn list_pull_requests(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::PipelinesRead>,
    paging: PageQuery,
) -> Result<ListResponse<WirePullRequest>, AppError> {
    let state = paging.params.one_of("state", &["open", "closed", "merged", "all"])?;
    let status = match state.as_deref() {
        None | Some("open") => Some(PullRequestStatus::Open),
        Some("closed") => Some(PullRequestStatus::Closed),
        Some("merged") => Some(PullRequestStatus::Merged),
        Some(_) => None,
    };
    let repository = paging.params.id("repository", "a repository")?;
    let filter =
        PullRequestFilter { status, repository, number: paging.params.integer("number", 1, i64::MAX)? };
    let page =
        app.list_pull_requests(&who, filter, paging.start::<PullRequestCursor>()?, paging.limit).await?;
    Ok(paging.list(page))
}

/// Get a pull request. Shows the environments that it uses or waits for.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}/repositories/{repositoryId}/pull-requests/{number}",
    tag = "pull requests", responses((status = 200, body = Data<WirePullRequest>)))]
pub(crate) async fn view_pull_request(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::PipelinesRead>,
    Path((_, repository, number)): Path<(String, String, String)>,
) -> Result<ApiResponse<WirePullRequest>, AppError> {
    app.view_pull_request(&who, repository, number).await
}
