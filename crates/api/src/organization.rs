//! Organizations.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Replay;
use crate::member::Role;
use crate::runner::Network;

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Organization {
    #[schema(example = "org_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub id: String,
    #[schema(example = "acme")]
    pub slug: String,
    #[schema(example = "Acme")]
    pub name: String,
    /// The caller's role in it.
    pub role: Role,
    /// The network of steps that do not name one.
    pub default_network: Network,
    #[schema(format = DateTime)]
    pub created_at: String,
}

impl Replay for Organization {}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct OrganizationPatch {
    #[schema(max_length = 120)]
    pub name: Option<String>,
    /// The network of steps that do not name one, from the next deployment on.
    pub default_network: Option<Network>,
}
