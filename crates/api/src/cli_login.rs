//! Login of the CLI: a person approves it in a browser, and the CLI gets an API token.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ReplayableBody;

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct CliLoginNew {
    /// Name of the machine that the CLI runs on. The token is named after it.
    #[schema(min_length = 1, max_length = 100, example = "adas-laptop")]
    pub machine: String,
    /// Port on 127.0.0.1 on which the CLI waits for the browser. Leave it out to poll instead.
    #[schema(minimum = 1024, maximum = 65535)]
    pub redirect_port: Option<i64>,
    /// PKCE challenge: the SHA-256 of the verifier, as base64url without padding. Required with `redirectPort`.
    #[schema(min_length = 43, max_length = 43)]
    pub code_challenge: Option<String>,
    /// Returned to the CLI with the redirect. Required with `redirectPort`.
    #[schema(min_length = 16, max_length = 128)]
    pub state: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CliLoginStarted {
    /// Secret of the CLI, with which it fetches the token.
    pub device_code: String,
    /// Code that the person compares or enters in the browser.
    #[schema(example = "BDFG-KLMN")]
    pub user_code: String,
    /// Page on which the person enters the code.
    #[schema(example = "https://berth.acme.test/device")]
    pub verification_uri: String,
    /// The same page, with the code filled in.
    #[schema(example = "https://berth.acme.test/device#BDFG-KLMN")]
    pub verification_uri_complete: String,
    #[schema(minimum = 1)]
    pub expires_in_seconds: i64,
    /// Seconds to wait between polls.
    #[schema(minimum = 1)]
    pub interval_seconds: i64,
}

/// Names a CLI login by the code that the CLI shows.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct CliLoginCode {
    #[schema(example = "BDFG-KLMN", max_length = 20)]
    pub user_code: String,
}

/// A CLI login that waits for approval.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PendingCliLogin {
    /// Name of the machine, as the CLI reports it.
    #[schema(example = "adas-laptop")]
    pub machine: String,
    /// Address that the CLI sent the request from.
    #[schema(example = "203.0.113.7")]
    pub address: String,
    /// Whether the CLI runs on the same machine as the browser and waits for its redirect.
    pub is_local: bool,
    #[schema(format = DateTime)]
    pub created_at: String,
    #[schema(format = DateTime)]
    pub expires_at: String,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct CliLoginApproval {
    #[schema(example = "BDFG-KLMN", max_length = 20)]
    pub user_code: String,
    /// Days until the token of the CLI expires. Defaults to 90.
    #[schema(minimum = 1, maximum = 366)]
    pub expires_in_days: Option<i64>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CliLoginDecision {
    /// Where to send the browser, always on 127.0.0.1. Null if the CLI polls.
    #[schema(example = "http://127.0.0.1:40123/callback?code=berth_cli_…&state=…")]
    pub redirect_to: Option<String>,
}

impl ReplayableBody for CliLoginDecision {}

#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct CliLoginExchange {
    #[schema(format = Password)]
    pub device_code: String,
    /// The code of the redirect. Only with `redirectPort`.
    pub code: Option<String>,
    /// The PKCE verifier. Only with `redirectPort`.
    #[schema(min_length = 43, max_length = 128)]
    pub code_verifier: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = CliLoginStatus)]
pub enum WireCliLoginStatus {
    /// The person has not decided yet. Poll again after `intervalSeconds`.
    Pending,
    /// Like `pending`, but the CLI polled too early; `intervalSeconds` has been raised.
    SlowDown,
    /// `token` is set. It is returned only once.
    Approved,
    Denied,
    /// The login has expired, or its token was already fetched.
    Expired,
}

#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CliLoginResult {
    #[schema(value_type = WireCliLoginStatus)]
    pub status: WireCliLoginStatus,
    #[schema(minimum = 1)]
    pub interval_seconds: i64,
    /// The API token.
    pub token: Option<String>,
    pub token_id: Option<String>,
    /// Slug of the organization that the token belongs to.
    #[schema(example = "acme")]
    pub organization: Option<String>,
    /// When the token expires.
    #[schema(format = DateTime)]
    pub expires_at: Option<String>,
}
