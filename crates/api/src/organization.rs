//! Organizations.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ReplayableBody;
use crate::member::WireRole;
use crate::runner::Network;

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Organization)]
pub struct WireOrganization {
    #[schema(example = "org_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub id: String,
    #[schema(example = "acme")]
    pub slug: String,
    #[schema(example = "Acme")]
    pub name: String,
    /// The caller's role in the organization.
    pub role: WireRole,
    /// The caller's roles on parts of the organization, directly and through teams.
    pub grants: Vec<ScopedRole>,
    /// Slugs of the teams that the caller belongs to.
    #[schema(example = json!(["qa"]))]
    pub teams: Vec<String>,
    /// Network access of steps that do not set `network`.
    pub default_network: Network,
    /// Whether people who log in with a password need a second factor to access the organization.
    pub require_second_factor: bool,
    #[schema(format = DateTime)]
    pub created_at: String,
}

impl ReplayableBody for WireOrganization {}

/// A role on a part of the organization.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScopedRole {
    pub role: WireRole,
    #[schema(example = "environment:shop/qa-*")]
    pub scope: String,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct OrganizationPatch {
    #[schema(max_length = 120)]
    pub name: Option<String>,
    /// Network access of steps that do not set `network`. Applies to new deployments.
    pub default_network: Option<Network>,
    /// Require a second factor from people who log in with a password. Only an owner can change this, and needs a
    /// second factor to switch it on. Members without one lose access, also with their API tokens, until they set one
    /// up.
    pub require_second_factor: Option<bool>,
}

/// An organization as instance admins see it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstanceOrganization {
    #[schema(example = "org_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub id: String,
    #[schema(example = "acme")]
    pub slug: String,
    #[schema(example = "Acme")]
    pub name: String,
    /// Earlier slugs, which still work in paths.
    pub former_slugs: Vec<String>,
    pub member_count: i64,
    #[schema(format = DateTime)]
    pub created_at: String,
}

impl ReplayableBody for InstanceOrganization {}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct OrganizationNew {
    #[schema(max_length = 63, pattern = "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$", example = "globex")]
    pub slug: String,
    /// Defaults to the slug.
    #[schema(max_length = 120)]
    pub name: Option<String>,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct OrganizationRename {
    /// The previous slug keeps working.
    #[schema(max_length = 63, pattern = "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$", example = "globex")]
    pub slug: Option<String>,
    #[schema(max_length = 120)]
    pub name: Option<String>,
}
