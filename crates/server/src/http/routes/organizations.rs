//! Endpoints for organizations.

use std::sync::Arc;

use axum::extract::State;
use berth_api::Data;
use berth_api::organization::{Organization, OrganizationPatch};
use berth_api::page::List;
use berth_core::access::permit;
use berth_core::name::DisplayName;
use berth_engine::wire::domain_network;

use crate::app::{Answer, App, OrganizationChange, Outcome, Page};
use crate::error::AppError;
use crate::http::body::Sent;
use crate::http::check::Check;
use crate::http::guard::{Allowed, Caller};
use crate::http::query::{IfMatch, Listed, Paging};

/// List your organizations. An API token sees only the organization it belongs to.
#[utoipa::path(get, path = "/api/v1/organizations", tag = "organizations",
    responses((status = 200, body = List<Organization>)))]
pub(crate) async fn list_organizations(
    State(app): State<Arc<App>>,
    Caller(who): Caller,
    paging: Paging,
) -> Result<Listed<Organization>, AppError> {
    let all = app.organizations_of(&who).await?;
    Ok(paging.list(Page::of_all(all, &paging.start::<berth_core::id::OrgId>()?, paging.limit, |org| {
        org.id.clone()
    })))
}

/// Get an organization.
#[utoipa::path(get, path = "/api/v1/organizations/{orgId}", tag = "organizations",
    responses((status = 200, body = Data<Organization>)))]
pub(crate) async fn view_organization(
    State(app): State<Arc<App>>,
    Allowed(who): Allowed<permit::OrganizationRead>,
) -> Result<Answer<Organization>, AppError> {
    app.view_organization(&who).await
}

/// Update an organization. Changes its name or the default network access of its steps.
#[utoipa::path(patch, path = "/api/v1/organizations/{orgId}", tag = "organizations", request_body = Option<OrganizationPatch>,
    responses((status = 200, body = Data<Organization>)))]
pub(crate) async fn update_organization(
    State(app): State<Arc<App>>,
    Allowed(who): Allowed<permit::OrganizationWrite>,
    IfMatch(expected): IfMatch,
    Sent(body): Sent<OrganizationPatch>,
) -> Result<Outcome<Organization>, AppError> {
    let mut check = Check::default();
    let name = check.optional("/name", body.name.as_deref(), DisplayName::parse);
    let name = check.done(Some(name))?;
    let default_network = body.default_network.map(domain_network);
    app.update_organization(&who, OrganizationChange { name, default_network }, expected).await
}
