//! Endpoints for organizations.

use std::sync::Arc;

use axum::extract::State;
use berth_api::Data;
use berth_api::organization::{OrganizationPatch, WireOrganization};
use berth_api::page::List;
use berth_api::runner::Network;
use berth_core::access::permit;
use berth_core::name::DisplayName;
use berth_engine::wire::domain_network;

use crate::app::{ApiResponse, App, IdempotentResponse, OrganizationChange, ResponsePage};
use crate::error::AppError;
use crate::http::access_control::{RequireCaller, RequirePermit};
use crate::http::body::JsonBody;
use crate::http::input_checker::InputChecker;
use crate::http::query::{IfMatch, ListResponse, PageQuery};

/// List your organizations. An API token sees only the organization it belongs to.
#[utoipa::path(get, path = "/api/v1/organizations", tag = "organizations",
    responses((status = 200, body = List<WireOrganization>)))]
pub(crate) async fn list_organizations(
    State(app): State<Arc<App>>,
    RequireCaller(who): RequireCaller,
    paging: PageQuery,
) -> Result<ListResponse<WireOrganization>, AppError> {
    let all = app.list_organizations_of(&who).await?;
    Ok(paging.list(ResponsePage::from_all(
        all,
        &paging.start::<berth_core::id::OrgId>()?,
        paging.limit,
        |org| org.id.clone(),
    )))
}

/// Get an organization.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}", tag = "organizations",
    responses((status = 200, body = Data<WireOrganization>)))]
pub(crate) async fn view_organization(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::OrganizationRead>,
) -> Result<ApiResponse<WireOrganization>, AppError> {
    app.view_organization(&who).await
}

/// Update an organization. Changes its name, the default network access of its steps, or whether members need a second
/// factor.
#[utoipa::path(patch, path = "/api/v1/organizations/{orgId}", tag = "organizations", request_body = Option<OrganizationPatch>,
    responses((status = 200, body = Data<WireOrganization>)))]
pub(crate) async fn update_organization(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::OrganizationWrite>,
    IfMatch(expected): IfMatch,
    JsonBody(body): JsonBody<OrganizationPatch>,
) -> Result<IdempotentResponse<WireOrganization>, AppError> {
    let mut check = InputChecker::default();
    let name = check.optional("/name", body.name.as_deref(), DisplayName::parse);
    let name = check.finish(Some(name))?;
    if body.default_network == Some(Network::Bridge) {
        return Err(AppError::invalid_member("/defaultNetwork", "must be `host` or `none`"));
    }
    let default_network = body.default_network.map(domain_network);
    let require_second_factor = body.require_second_factor;
    let change = OrganizationChange { name, default_network, require_second_factor };
    app.update_organization(&who, change, expected).await
}
