//! Login through identity providers, and the accounts there that are linked to a user.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How people can log in to this server.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoginOptions {
    pub providers: Vec<LoginProvider>,
    pub password_login: PasswordLoginRule,
}

/// An OpenID Connect identity provider.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoginProvider {
    /// Name in URLs.
    #[schema(example = "corp")]
    pub name: String,
    /// Name on the login page.
    #[schema(example = "Acme SSO")]
    pub label: String,
}

/// Who may log in with a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PasswordLoginRule {
    Everyone,
    /// Only owners of an organization.
    Owners,
}

#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schema(as = ProviderLogin)]
pub struct ProviderLoginRequest {
    /// Path of the dashboard to continue at.
    #[schema(max_length = 1024, example = "/")]
    pub next: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderLoginStarted {
    /// Open this URL in the browser that received the cookie of this response.
    #[schema(example = "https://login.acme.test/authorize?client_id=berth")]
    pub url: String,
}

/// An account at an identity provider that is linked to your account.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LinkedIdentity {
    #[schema(example = "idn_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub id: String,
    #[schema(example = "corp")]
    pub provider: String,
    #[schema(example = "https://login.acme.test")]
    pub issuer: String,
    /// The address of the account at the provider. For display only.
    pub email: Option<String>,
    pub status: LinkedIdentityStatus,
    /// When the provider last confirmed the account.
    #[schema(format = DateTime)]
    pub verified_at: String,
    #[schema(format = DateTime)]
    pub last_login_at: String,
    #[schema(format = DateTime)]
    pub linked_at: String,
}

/// `active`: the provider confirms the account regularly. `refused`: it no longer accepts the account. `dormant`: you
/// have logged in with your password since the provider refused the account or could not be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LinkedIdentityStatus {
    Active,
    Refused,
    Dormant,
}
