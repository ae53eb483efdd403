//! Teams of an organization.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ReplayableBody;

/// A group of members. Grants of a team apply to all of its members.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Team)]
pub struct WireTeam {
    #[schema(example = "tm_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub id: String,
    /// Name in URLs and in definitions, as in `team:sre`.
    #[schema(example = "sre")]
    pub slug: String,
    #[schema(example = "Site reliability")]
    pub name: String,
    pub member_count: i64,
    #[schema(format = DateTime)]
    pub created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime, nullable = false)]
    pub deleted_at: Option<String>,
}

impl ReplayableBody for WireTeam {}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct TeamNew {
    #[schema(min_length = 1, max_length = 63, example = "sre")]
    pub slug: String,
    /// Defaults to the slug.
    #[schema(max_length = 120)]
    pub name: Option<String>,
}

#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct TeamPatch {
    #[schema(max_length = 120)]
    pub name: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TeamMember {
    #[schema(example = "usr_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub id: String,
    pub email: String,
    pub name: String,
    /// `manual`, or the name of the identity provider whose groups the membership comes from.
    #[schema(example = "manual")]
    pub source: String,
    #[schema(format = DateTime)]
    pub added_at: String,
}

impl ReplayableBody for TeamMember {}
