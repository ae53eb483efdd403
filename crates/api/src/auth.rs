//! Signing in and out, and who one is.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::member::UserKind;
use crate::organization::Organization;
use crate::{Data, Replay};

#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Login {
    #[schema(format = Email, max_length = 254, example = "ada@acme.test")]
    pub email: String,
    #[schema(format = Password)]
    pub password: String,
}

#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PasswordChange {
    #[schema(format = Password)]
    pub current_password: String,
    #[schema(format = Password, min_length = 15, max_length = 256)]
    pub new_password: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Me {
    pub user: User,
    /// Those the caller can reach: all of a signed-in user's, the one of a token.
    pub organizations: Vec<Organization>,
    /// To be sent as `X-Berth-CSRF` with every change made with the cookie. Null for a token.
    pub csrf_token: Option<String>,
    /// What only a demo has; null on every other server.
    #[serde(default)]
    pub demo: Option<Demo>,
}

/// A server with throw-away data, to look at.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Demo {
    pub sites: Vec<DemoSite>,
}

/// Where what was deployed can be seen.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DemoSite {
    /// Name of the stage or environment.
    #[schema(example = "qa-2")]
    pub place: String,
    #[schema(example = "http://127.0.0.1:8084")]
    pub url: String,
}

impl Replay for Me {
    const SHOWS_ONCE: bool = true;

    fn replayed(&self) -> serde_json::Result<String> {
        serde_json::to_string(&Data { data: Self { csrf_token: None, ..self.clone() } })
    }
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct User {
    pub id: String,
    pub email: String,
    pub name: String,
    pub kind: UserKind,
    /// The password came from `berth init` or an invitation and should be changed.
    pub password_is_generated: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SignedOut {
    pub signed_out: bool,
}
