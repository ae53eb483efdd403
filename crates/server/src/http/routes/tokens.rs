//! Endpoints for API tokens.

use std::sync::Arc;

use axum::extract::{Path, State};
use berth_api::Data;
use berth_api::page::List;
use berth_api::token::{ApiToken, ApiTokenCreated, ApiTokenNew, TokenRestrictionBody};
use berth_core::access::{AccessScope, Action, TokenRestriction, permit};
use berth_core::id::{TokenId, UserId};
use berth_core::name::DisplayName;

use crate::app::{ApiResponse, App, IdempotentResponse, NewToken};
use crate::error::AppError;
use crate::http::access_control::RequirePermit;
use crate::http::body::PostBody;
use crate::http::input_checker::InputChecker;
use crate::http::query::{IfMatch, ListResponse, PageQuery};
use crate::limits::{TOKEN_DAYS, TOKEN_DAYS_MAX};

/// Maximum number of entries in `restrictTo`.
const RESTRICTIONS_MAX: usize = 20;
/// Maximum number of permissions in one entry of `restrictTo`.
const RESTRICTED_PERMISSIONS_MAX: usize = 50;

/// List your API tokens. Lists all tokens of the organization if you have `tokens:manage`.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}/api-tokens", tag = "api tokens",
    responses((status = 200, body = List<ApiToken>)))]
pub(crate) async fn list_api_tokens(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::TokensOwn>,
    paging: PageQuery,
) -> Result<ListResponse<ApiToken>, AppError> {
    let page = app.list_tokens(&who, paging.start::<TokenId>()?, paging.limit).await?;
    Ok(paging.list(page))
}

/// Create an API token. The token is returned only here.
#[utoipa::path(post, path = "/api/v1/organizations/{orgId}/api-tokens", tag = "api tokens",
    request_body = ApiTokenNew, responses((status = 201, body = Data<ApiTokenCreated>)))]
pub(crate) async fn create_api_token(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::TokensOwn>,
    posted: PostBody<ApiTokenNew>,
) -> Result<IdempotentResponse<ApiTokenCreated>, AppError> {
    let body = posted.body;
    let mut check = InputChecker::default();
    let name = check.require("/name", DisplayName::parse(&body.name));
    let owner = check.optional("/ownerId", body.owner_id.as_deref(), str::parse::<UserId>);
    if body.expires_in_days.is_some_and(|days| !(0..=TOKEN_DAYS_MAX).contains(&days)) {
        let range = format!(
            "must be a whole number from 1 to {TOKEN_DAYS_MAX}, or 0 for a token that does not expire"
        );
        check.require("/expiresInDays", Err::<(), _>(range));
    }
    let restriction = body.restrict_to.as_deref().map(|all| parse_restriction(&mut check, all));
    let name = check.finish(name)?;
    let expires_in_days = body.expires_in_days.unwrap_or(TOKEN_DAYS);
    let new = NewToken { name, expires_in_days, owner, restriction };
    app.create_token(&who, new, posted.idempotency_key).await
}

/// Get an API token, without its value.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}/api-tokens/{tokenId}", tag = "api tokens",
    responses((status = 200, body = Data<ApiToken>)))]
pub(crate) async fn view_api_token(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::TokensOwn>,
    Path((_, token)): Path<(String, String)>,
) -> Result<ApiResponse<ApiToken>, AppError> {
    app.view_token(&who, token_id(&token)?).await
}

/// Revoke an API token. It stops working immediately.
#[utoipa::path(delete, path = "/api/v1/organizations/{orgId}/api-tokens/{tokenId}", tag = "api tokens",
    responses((status = 200, body = Data<ApiToken>)))]
pub(crate) async fn revoke_api_token(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::TokensOwn>,
    Path((_, token)): Path<(String, String)>,
    IfMatch(expected): IfMatch,
) -> Result<IdempotentResponse<ApiToken>, AppError> {
    app.revoke_token(&who, token_id(&token)?, expected).await
}

fn parse_restriction(check: &mut InputChecker, all: &[TokenRestrictionBody]) -> Vec<TokenRestriction> {
    if all.is_empty() || all.len() > RESTRICTIONS_MAX {
        let range =
            format!("must have 1 to {RESTRICTIONS_MAX} entries; leave it out for an unrestricted token");
        check.require("/restrictTo", Err::<(), _>(range));
        return Vec::new();
    }
    let mut parsed = Vec::new();
    for (index, it) in all.iter().enumerate() {
        let at = |member: &str| format!("/restrictTo/{index}/{member}");
        if it.permissions.is_empty() || it.permissions.len() > RESTRICTED_PERMISSIONS_MAX {
            let range = format!("must have 1 to {RESTRICTED_PERMISSIONS_MAX} entries");
            check.require(&at("permissions"), Err::<(), _>(range));
            continue;
        }
        let scope = check.require(&at("scope"), it.scope.parse::<AccessScope>());
        let names = it.permissions.iter().enumerate();
        let permissions = names.filter_map(|(place, name)| {
            check.require(&format!("{}/{place}", at("permissions")), name.parse::<Action>())
        });
        let permissions = permissions.collect();
        parsed.extend(scope.map(|scope| TokenRestriction { permissions, scope }));
    }
    parsed
}

fn token_id(text: &str) -> Result<TokenId, AppError> {
    text.parse().map_err(|_| AppError::not_found("token"))
}
