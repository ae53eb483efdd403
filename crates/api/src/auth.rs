//! Login, logout and the current user.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::member::UserKind;
use crate::organization::WireOrganization;
use crate::{Data, ReplayableBody};

#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schema(as = Login)]
pub struct LoginRequest {
    #[schema(format = Email, max_length = 254, example = "ada@acme.test")]
    pub email: String,
    #[schema(format = Password)]
    pub password: String,
    /// If the account has a second factor: the current code from the authenticator app, or a recovery code.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 32)]
    pub code: Option<String>,
}

#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PasswordChange {
    #[schema(format = Password)]
    pub current_password: String,
    #[schema(format = Password, min_length = 15, max_length = 256)]
    pub new_password: String,
    /// Also revoke your API tokens, in every organization.
    #[serde(default)]
    pub revoke_tokens: bool,
    /// If the account has a second factor: the current code from the authenticator app, or a recovery code.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 32)]
    pub code: Option<String>,
}

/// Sets a new password without the old one.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PasswordReset {
    /// The part of the reset link after the `#`.
    #[schema(format = Password)]
    pub token: String,
    #[schema(format = Password, min_length = 15, max_length = 256)]
    pub new_password: String,
    /// Also revoke the API tokens of the account, in every organization.
    #[serde(default)]
    pub revoke_tokens: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PasswordResetDone {
    /// The account whose password was set.
    pub email: String,
    pub tokens_revoked: u64,
}

/// Confirms that the person at the browser knows the password.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PasswordConfirmation {
    #[schema(format = Password)]
    pub password: String,
    /// If the account has a second factor: the current code from the authenticator app, or a recovery code.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 32)]
    pub code: Option<String>,
}

/// A new second factor that is not in effect yet.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecondFactorEnrolment {
    /// The secret, to type into an authenticator app.
    #[schema(example = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP")]
    pub secret: String,
    /// The same secret as a URI, to show as a QR code.
    #[schema(
        example = "otpauth://totp/Berth:ada%40acme.test?secret=JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP&issuer=Berth&algorithm=SHA1&digits=6&period=30"
    )]
    pub uri: String,
}

/// Proves that the authenticator app works.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct SecondFactorConfirmation {
    /// The code that the authenticator app shows.
    #[schema(max_length = 32, example = "492039")]
    pub code: String,
}

/// Recovery codes. Each replaces one code of the authenticator app. They are shown only once.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecoveryCodes {
    #[schema(max_items = 10, example = json!(["k7mfq-2xw9d"]))]
    pub recovery_codes: Vec<String>,
}

/// Switches off the second factor.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct SecondFactorRemoval {
    #[schema(format = Password)]
    pub password: String,
    /// The current code from the authenticator app, or a recovery code.
    #[schema(max_length = 32, example = "492039")]
    pub code: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = SecondFactor)]
pub struct SecondFactorState {
    pub status: SecondFactorStatus,
    /// When it was switched on.
    #[schema(format = DateTime)]
    pub enabled_at: Option<String>,
    /// Number of unused recovery codes.
    #[schema(minimum = 0)]
    pub recovery_codes_left: i64,
}

/// `unavailable` if the account has no password, and therefore needs no second factor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SecondFactorStatus {
    Enabled,
    Disabled,
    Unavailable,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Me)]
pub struct CurrentUser {
    pub user: WireUser,
    pub second_factor: SecondFactorState,
    /// Organizations the caller can access: all of a logged-in user's, or the one the API token belongs to.
    pub organizations: Vec<WireOrganization>,
    /// Send it as `X-Berth-CSRF` with every request that changes something and authenticates with the cookie. Null for
    /// an API token.
    pub csrf_token: Option<String>,
    /// Whether the caller may create, rename and delete organizations.
    #[serde(default)]
    pub is_instance_admin: bool,
    /// Name of the identity provider through which this browser logged in. Null after a login with a password.
    #[serde(default)]
    #[schema(example = "corp")]
    pub provider: Option<String>,
    /// Set on demo servers only.
    #[serde(default)]
    pub demo: Option<DemoInfo>,
}

/// A demo server with throw-away data.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Demo)]
pub struct DemoInfo {
    pub sites: Vec<DemoSite>,
}

/// Where to see what was deployed.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DemoSite {
    /// Name of the stage or environment.
    #[schema(example = "qa-2")]
    pub place: String,
    #[schema(example = "http://127.0.0.1:8084")]
    pub url: String,
}

impl ReplayableBody for CurrentUser {
    const SHOWS_ONCE: bool = true;

    fn to_replay_json(&self) -> serde_json::Result<String> {
        serde_json::to_string(&Data { data: Self { csrf_token: None, ..self.clone() } })
    }
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = User)]
pub struct WireUser {
    pub id: String,
    pub email: String,
    pub name: String,
    pub kind: UserKind,
    /// The password was generated by `berth init` and should be changed.
    pub password_is_generated: bool,
    /// Whether the user can log in with a password. False for service accounts, and for people who only use an identity
    /// provider.
    #[serde(default)]
    pub has_password: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SignedOut {
    pub signed_out: bool,
    /// Open this URL to also log out at the identity provider through which you logged in.
    #[serde(default)]
    pub provider_logout_url: Option<String>,
}
