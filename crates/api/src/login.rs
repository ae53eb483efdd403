//! Active logins: browsers in which a person is logged in.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ReplayableBody;

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ActiveLogin {
    #[schema(example = "sgn_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub id: String,
    #[schema(format = DateTime)]
    pub created_at: String,
    /// Time of the last request, at most a minute old.
    #[schema(format = DateTime)]
    pub last_seen_at: String,
    /// Address of the last request.
    #[schema(example = "203.0.113.7")]
    pub address: String,
    /// Browser and system. Null if the browser did not send them.
    #[schema(example = "Firefox on Linux")]
    pub client: Option<String>,
    /// Whether this request was made with this login.
    pub is_current: bool,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct LogoutEverywhere {
    /// Stay logged in in the browser that sends this request.
    #[serde(default)]
    pub keep_current: bool,
    /// Also revoke your API tokens, in every organization. This includes logins of the CLI.
    #[serde(default)]
    pub revoke_tokens: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoginsEnded {
    #[schema(minimum = 0)]
    pub logins_ended: u64,
    #[schema(minimum = 0)]
    pub tokens_revoked: u64,
}

impl ReplayableBody for ActiveLogin {}
impl ReplayableBody for LoginsEnded {}
