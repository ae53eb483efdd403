//! API tokens.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Data, ReplayableBody};

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApiToken {
    #[schema(example = "tok_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub id: String,
    pub name: String,
    /// First characters of the token, to recognize it.
    #[schema(example = "berth_api_Zx41")]
    pub prefix: String,
    /// User or service account that the token authenticates as.
    pub owner_id: String,
    #[schema(format = DateTime)]
    pub created_at: String,
    #[schema(format = DateTime)]
    pub expires_at: Option<String>,
    #[schema(format = DateTime)]
    pub last_used_at: Option<String>,
    /// Address that last used the token.
    #[schema(example = "203.0.113.7")]
    pub last_used_address: Option<String>,
    /// Program that last used the token.
    #[schema(example = "berth CLI")]
    pub last_used_client: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime, nullable = false)]
    pub revoked_at: Option<String>,
    /// What the token is limited to. Null for a token that has all permissions of its owner.
    pub restrict_to: Option<Vec<TokenRestrictionBody>>,
}

/// Permissions that a token keeps, in one scope.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schema(as = TokenRestriction)]
pub struct TokenRestrictionBody {
    #[schema(min_items = 1, max_items = 50, example = json!(["environments:claim"]))]
    pub permissions: Vec<String>,
    /// `org`, `pipeline:shop-*`, `environment:shop/qa-*` or `stage:shop@production`.
    #[schema(example = "environment:shop/qa-*")]
    pub scope: String,
}

impl ReplayableBody for ApiToken {}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApiTokenCreated {
    #[serde(flatten)]
    pub record: ApiToken,
    /// The token. Returned only when it is created; null in a replayed response.
    pub token: Option<String>,
}

impl ReplayableBody for ApiTokenCreated {
    const SHOWS_ONCE: bool = true;

    fn to_replay_json(&self) -> serde_json::Result<String> {
        serde_json::to_string(&Data { data: Self { token: None, ..self.clone() } })
    }
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ApiTokenNew {
    #[schema(min_length = 1, max_length = 120, example = "laptop")]
    pub name: String,
    /// Days until the token expires, 1 to 366. Defaults to 90. With 0, the token never expires.
    #[schema(minimum = 0, maximum = 366)]
    pub expires_in_days: Option<i64>,
    /// Service account to create the token for. Defaults to the caller.
    pub owner_id: Option<String>,
    /// Limits the token to some of the permissions of its owner. Without it, the token has all of them.
    #[schema(min_items = 1, max_items = 20)]
    pub restrict_to: Option<Vec<TokenRestrictionBody>>,
}
