//! Scoped grants, and the explanation of a member's access.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ReplayableBody;
use crate::event::{Permission, WireActor};
use crate::member::WireRole;

/// A role on a part of the organization, given to a member or a team.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Grant)]
pub struct WireGrant {
    #[schema(example = "gnt_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub id: String,
    pub subject: WireGrantSubject,
    pub role: WireRole,
    /// `org`, `pipeline:shop-*`, `environment:shop/qa-*` or `stage:shop@production`.
    #[schema(example = "environment:shop/qa-*")]
    pub scope: String,
    pub created_by: WireActor,
    #[schema(format = DateTime)]
    pub created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime, nullable = false)]
    pub deleted_at: Option<String>,
}

impl ReplayableBody for WireGrant {}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = GrantSubject)]
pub struct WireGrantSubject {
    #[serde(rename = "type")]
    pub kind: GrantSubjectKind,
    #[schema(example = "tm_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub id: String,
    /// Name of the member or team.
    pub name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum GrantSubjectKind {
    User,
    Team,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct GrantNew {
    /// `user:` and the id or e-mail address of a member, or `team:` and the id or slug of a team.
    #[schema(max_length = 300, example = "team:qa")]
    pub subject: String,
    /// Not higher than your own role. The role `owner` can be given only in the whole organization, to a member.
    #[schema(value_type = WireRole, example = "tester")]
    pub role: String,
    /// `org`, `pipeline:NAME`, `environment:PIPELINE/NAME` or `stage:PIPELINE@NAME`. A name may end with `*`.
    #[schema(max_length = 200, example = "environment:shop/qa-*")]
    pub scope: String,
}

/// What a member may do with one resource, and why.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemberAccess {
    pub user_id: String,
    pub name: String,
    /// Role in the whole organization.
    pub role: WireRole,
    /// The resource, in the form of a scope.
    #[schema(example = "environment:shop/qa-1")]
    pub resource: String,
    /// Every permission, in the order of the documentation.
    pub permissions: Vec<PermissionAccess>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PermissionAccess {
    #[schema(value_type = Permission)]
    pub permission: String,
    /// What the permission allows.
    pub summary: String,
    pub allowed: bool,
    /// Where the permission comes from. Null if it is not allowed.
    pub granted_by: Option<PermissionSource>,
}

/// The role or grant that contains a permission.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PermissionSource {
    pub role: WireRole,
    pub scope: String,
    /// Null if the permission comes from the role in the whole organization.
    pub grant_id: Option<String>,
    /// Name of the team that has the grant. Null if the member has it.
    pub team: Option<String>,
}
