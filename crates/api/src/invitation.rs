//! Invitations to an organization.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::member::WireRole;
use crate::{Data, ReplayableBody};

/// An open invitation: neither accepted nor revoked.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Invitation)]
pub struct WireInvitation {
    #[schema(example = "inv_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub id: String,
    pub email: String,
    /// Suggested name of the invited person.
    pub name: Option<String>,
    pub role: WireRole,
    pub invited_by: InvitationSender,
    #[schema(format = DateTime)]
    pub created_at: String,
    #[schema(format = DateTime)]
    pub expires_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime, nullable = false)]
    pub deleted_at: Option<String>,
}

impl ReplayableBody for WireInvitation {}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Inviter)]
pub struct InvitationSender {
    pub id: String,
    pub name: String,
}

/// A new invitation with its link.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct InvitationCreated {
    #[serde(flatten)]
    pub invitation: WireInvitation,
    /// Link for the invited person. Works once. Returned only when the invitation is created; null in a replayed
    /// response.
    #[schema(example = "https://berth.acme.test/invitation#berth_invite_…")]
    pub url: Option<String>,
}

impl ReplayableBody for InvitationCreated {
    const SHOWS_ONCE: bool = true;

    fn to_replay_json(&self) -> serde_json::Result<String> {
        serde_json::to_string(&Data { data: Self { url: None, ..self.clone() } })
    }
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct InvitationNew {
    #[schema(format = Email, max_length = 254, example = "grace@acme.test")]
    pub email: String,
    /// Role of the new member; not higher than your own.
    #[schema(value_type = WireRole)]
    pub role: String,
    /// Suggested name. The invited person can change it.
    #[schema(max_length = 120)]
    pub name: Option<String>,
}

/// The token of an invitation: the part of its link after the `#`.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct InvitationToken {
    #[schema(format = Password)]
    pub token: String,
}

/// Invitation details shown to the invited person.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct InvitationOffer {
    pub organization: InvitingOrganization,
    pub email: String,
    pub name: Option<String>,
    pub role: WireRole,
    /// Name of the member who sent the invitation.
    pub invited_by: String,
    #[schema(format = DateTime)]
    pub expires_at: String,
    /// The e-mail address already has an account on this server; log in to accept.
    pub has_account: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct InvitingOrganization {
    #[schema(example = "acme")]
    pub slug: String,
    #[schema(example = "Acme")]
    pub name: String,
}

/// Accepts an invitation with a new account.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct SignUp {
    #[schema(format = Password)]
    pub token: String,
    /// Defaults to the name in the invitation, or to the part of the address before the @.
    #[schema(max_length = 120)]
    pub name: Option<String>,
    #[schema(format = Password, min_length = 15, max_length = 256)]
    pub password: String,
}
