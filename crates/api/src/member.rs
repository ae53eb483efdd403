//! Members of an organization.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ReplayableBody;
use crate::agent::{AgentLimitsPatch, WireAgentLimits};

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Member)]
pub struct WireMember {
    /// The user's id.
    #[schema(example = "usr_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub id: String,
    pub email: String,
    pub name: String,
    pub kind: UserKind,
    pub role: WireRole,
    /// For a service account or an agent: the user responsible for it.
    pub owner_id: Option<String>,
    /// For an agent: what it may do at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub limits: Option<WireAgentLimits>,
    /// Whether the account has a second factor.
    pub has_second_factor: bool,
    #[schema(format = DateTime)]
    pub created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime, nullable = false)]
    pub deleted_at: Option<String>,
}

impl ReplayableBody for WireMember {}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Role)]
pub enum WireRole {
    Member,
    Viewer,
    Tester,
    Approver,
    Deployer,
    Admin,
    Owner,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum UserKind {
    Person,
    Service,
    /// A service account with limits, for a program that acts on its own.
    Agent,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct MemberNew {
    /// Required for a service account. An agent gets an address that receives no mail.
    #[schema(format = Email, max_length = 254, example = "ci@acme.test")]
    pub email: Option<String>,
    /// Role of the new member; not higher than your own. Required for a service account, `tester` by default for an agent.
    #[schema(value_type = Option<WireRole>)]
    pub role: Option<String>,
    /// Required for an agent. Otherwise it defaults to the part of the address before the @.
    #[schema(max_length = 120)]
    pub name: Option<String>,
    /// `service` or `agent`. To add a person, create an invitation.
    #[schema(value_type = UserKind, required = true)]
    pub kind: Option<String>,
    /// For an agent: the person responsible for it. Defaults to you.
    pub owner_id: Option<String>,
    /// For an agent: what it may do at most.
    pub limits: Option<AgentLimitsPatch>,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct MemberPatch {
    #[schema(value_type = Option<WireRole>)]
    pub role: Option<String>,
    /// Only for an agent.
    pub limits: Option<AgentLimitsPatch>,
}
