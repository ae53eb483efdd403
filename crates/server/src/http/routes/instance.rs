//! Endpoints for instance admins: the organizations of the installation.

use std::sync::Arc;

use axum::extract::{Path, State};
use berth_api::Data;
use berth_api::organization::{InstanceOrganization, OrganizationNew, OrganizationRename};
use berth_api::page::List;
use berth_core::id::OrgId;
use berth_core::name::{DisplayName, Slug};

use crate::app::{ApiResponse, App, IdempotentResponse, OrganizationRenaming};
use crate::error::AppError;
use crate::http::access_control::RequireInstanceAdmin;
use crate::http::body::{JsonBody, PostBody};
use crate::http::input_checker::InputChecker;
use crate::http::query::{IfMatch, ListResponse, PageQuery, QueryParams};

/// List all organizations of the installation.
#[utoipa::path(get, path = "/api/v1/instance/organizations", tag = "instance",
    responses((status = 200, body = List<InstanceOrganization>)))]
pub(crate) async fn list_instance_organizations(
    State(app): State<Arc<App>>,
    RequireInstanceAdmin(who): RequireInstanceAdmin,
    paging: PageQuery,
) -> Result<ListResponse<InstanceOrganization>, AppError> {
    let page = app.list_instance_organizations(&who, paging.start::<OrgId>()?, paging.limit).await?;
    Ok(paging.list(page))
}

/// Create an organization. You become its owner.
#[utoipa::path(post, path = "/api/v1/instance/organizations", tag = "instance", request_body = OrganizationNew,
    responses((status = 201, body = Data<InstanceOrganization>)))]
pub(crate) async fn create_organization(
    State(app): State<Arc<App>>,
    RequireInstanceAdmin(who): RequireInstanceAdmin,
    posted: PostBody<OrganizationNew>,
) -> Result<IdempotentResponse<InstanceOrganization>, AppError> {
    let body = posted.body;
    let mut check = InputChecker::default();
    let slug = check.require("/slug", Slug::parse(&body.slug));
    let name = body.name.as_deref().filter(|name| !name.is_empty()).unwrap_or(&body.slug);
    let name = check.require("/name", DisplayName::parse(name));
    let (slug, name) = check.finish(slug.zip(name))?;
    app.create_instance_organization(&who, slug, name, posted.idempotency_key).await
}

/// Get an organization of the installation.
#[utoipa::path(get, path = "/api/v1/instance/organizations/{orgId}", tag = "instance",
    responses((status = 200, body = Data<InstanceOrganization>)))]
pub(crate) async fn view_instance_organization(
    State(app): State<Arc<App>>,
    RequireInstanceAdmin(who): RequireInstanceAdmin,
    Path(org): Path<String>,
) -> Result<ApiResponse<InstanceOrganization>, AppError> {
    app.view_instance_organization(&who, org).await
}

/// Rename an organization. Its id stays the same, and its previous slug keeps working.
#[utoipa::path(patch, path = "/api/v1/instance/organizations/{orgId}", tag = "instance",
    request_body = Option<OrganizationRename>, responses((status = 200, body = Data<InstanceOrganization>)))]
pub(crate) async fn rename_organization(
    State(app): State<Arc<App>>,
    RequireInstanceAdmin(who): RequireInstanceAdmin,
    Path(org): Path<String>,
    IfMatch(expected): IfMatch,
    JsonBody(body): JsonBody<OrganizationRename>,
) -> Result<IdempotentResponse<InstanceOrganization>, AppError> {
    let mut check = InputChecker::default();
    let slug = check.optional("/slug", body.slug.as_deref(), Slug::parse);
    let name = check.optional("/name", body.name.as_deref(), DisplayName::parse);
    let (slug, name) = check.finish(Some((slug, name)))?;
    app.rename_instance_organization(&who, org, OrganizationRenaming { slug, name }, expected).await
}

/// Delete an organization with its pipelines, deployments, secrets, logs and audit log. Refused while it has active
/// sessions or unfinished deployments.
#[utoipa::path(delete, path = "/api/v1/instance/organizations/{orgId}", tag = "instance",
    params(("confirm" = String, Query, description = "Current slug of the organization, as confirmation")),
    responses((status = 200, body = Data<InstanceOrganization>)))]
pub(crate) async fn delete_organization(
    State(app): State<Arc<App>>,
    RequireInstanceAdmin(who): RequireInstanceAdmin,
    params: QueryParams,
    Path(org): Path<String>,
    IfMatch(expected): IfMatch,
) -> Result<IdempotentResponse<InstanceOrganization>, AppError> {
    let confirm = params.text("confirm")?.unwrap_or_default();
    app.delete_instance_organization(&who, org, confirm, expected).await
}
