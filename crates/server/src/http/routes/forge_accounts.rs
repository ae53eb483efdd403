//! Endpoints for linked accounts on forges, and for approving commits from forks.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use berth_api::Data;
use berth_api::environment::All;
use berth_api::forge_account::{
    ForgeLinkCode, LinkedForgeAccount, PullRequestApproval, PullRequestApprovalNew,
};
use berth_core::access::permit;
use berth_core::id::RepositoryId;

use super::auth::EmptyBody;
use crate::app::{App, IdempotentResponse};
use crate::error::AppError;
use crate::http::access_control::RequirePermit;
use crate::http::body::PostBody;
use crate::http::input_checker::InputChecker;

/// List your linked accounts on forges.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}/me/forge-accounts", tag = "repositories",
    responses((status = 200, body = All<LinkedForgeAccount>)))]
pub(crate) async fn list_forge_accounts(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::TokensOwn>,
) -> Result<Json<All<LinkedForgeAccount>>, AppError> {
    Ok(Json(All { data: app.list_forge_accounts(&who).await? }))
}

/// Create a code that links an account on a forge to yours. Post it as a comment on a pull request of a connected
/// repository within 10 minutes. Needs a login, or a token without restrictions and expiry.
#[utoipa::path(post, path = "/api/v1/organizations/{orgId}/me/forge-accounts", tag = "repositories",
    responses((status = 201, body = Data<ForgeLinkCode>)))]
pub(crate) async fn create_forge_link_code(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::TokensOwn>,
    posted: PostBody<EmptyBody>,
) -> Result<IdempotentResponse<ForgeLinkCode>, AppError> {
    app.create_forge_link_code(&who, posted.idempotency_key).await
}

/// Unlink an account on a forge. Its comments are no longer carried out.
#[utoipa::path(delete, path = "/api/v1/organizations/{orgId}/me/forge-accounts/{host}/{accountId}",
    tag = "repositories", responses((status = 200, body = Data<LinkedForgeAccount>)))]
pub(crate) async fn unlink_forge_account(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::TokensOwn>,
    Path((_, host, account)): Path<(String, String, String)>,
) -> Result<IdempotentResponse<LinkedForgeAccount>, AppError> {
    app.unlink_forge_account(&who, host, account).await
}

/// Approve the head commit of a pull request from a fork for deployment. Fails with 409 if the head has moved. Its steps
/// get no secrets.
#[utoipa::path(post, tag = "repositories", request_body = PullRequestApprovalNew,
    path = "/api/v1/organizations/{orgId}/repositories/{repositoryId}/pull-requests/{number}/approve",
    responses((status = 200, body = Data<PullRequestApproval>)))]
pub(crate) async fn approve_pull_request(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::EnvironmentsClaim>,
    Path((_, repository, number)): Path<(String, String, String)>,
    posted: PostBody<PullRequestApprovalNew>,
) -> Result<IdempotentResponse<PullRequestApproval>, AppError> {
    let mut check = InputChecker::default();
    let commit = posted.body.commit.to_ascii_lowercase();
    let is_hash = berth_engine::git::is_whole_hash(&commit);
    let commit =
        check.require("/commit", if is_hash { Ok(commit) } else { Err("must be a full commit hash") });
    let commit = check.finish(commit)?;
    let missing = || AppError::not_found("pull request");
    let id: RepositoryId = repository.parse().map_err(|_| missing())?;
    let number: i64 = number.parse().map_err(|_| missing())?;
    app.approve_pull_request(&who, id, number, commit, posted.idempotency_key).await
}
