//! Connections of repositories to their forges, and the deliveries of those forges.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Data, ReplayableBody};

/// A kind of forge. `gitea` includes Forgejo.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ForgeName {
    Github,
    Gitlab,
    Gitea,
    Bitbucket,
}

/// The connection of a repository to its forge.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RepositoryConnection {
    #[schema(example = "rep_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub repository_id: String,
    pub forge: ForgeName,
    /// The URL that the forge sends deliveries to.
    #[schema(example = "https://berth.acme.test/hooks/github/hook_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub hook_url: String,
    /// The GitHub App through which the repository is connected. Null if it has a webhook of its own.
    pub app: Option<ConnectionApp>,
    /// Id of the service account that claims environments for pull requests.
    pub account_id: String,
    /// Whether Berth created the webhook on the forge, or a GitHub App delivers.
    pub is_managed: bool,
    /// Whether a delivery with a valid signature has arrived.
    pub is_verified: bool,
    #[schema(format = DateTime)]
    pub verified_at: Option<String>,
    /// Why the webhook could not be created on the forge, or deleted there.
    pub error: Option<String>,
    /// How to create the webhook on the forge. Empty if Berth created it.
    pub instructions: Vec<String>,
    #[schema(format = DateTime)]
    pub created_at: String,
    #[schema(format = DateTime)]
    pub updated_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime, nullable = false)]
    pub deleted_at: Option<String>,
}

impl ReplayableBody for RepositoryConnection {}

/// The GitHub App of a connection.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConnectionApp {
    #[schema(example = "app_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub id: String,
    #[schema(example = "Berth acme 4t7w9y")]
    pub name: String,
    /// Page on the forge where the app is installed, or its repositories are chosen.
    pub install_url: String,
}

/// A connection with the secret of its webhook, which is returned only when the secret is created.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConnectionWithSecret {
    #[serde(flatten)]
    pub record: RepositoryConnection,
    /// The secret to enter on the forge. Null if Berth created the webhook there, and in a replayed response.
    pub secret: Option<String>,
}

impl ReplayableBody for ConnectionWithSecret {
    const SHOWS_ONCE: bool = true;

    fn to_replay_json(&self) -> serde_json::Result<String> {
        serde_json::to_string(&Data { data: Self { secret: None, ..self.clone() } })
    }
}

#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ConnectionNew {
    /// The kind of forge, if it cannot be recognized by its host name.
    pub forge: Option<ForgeName>,
}

/// The result of asking a forge for a test delivery.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConnectionTest {
    /// Whether the forge accepted the request. The delivery then arrives within a few seconds.
    pub is_requested: bool,
    /// What to do if the forge cannot be asked.
    pub detail: Option<String>,
}

impl ReplayableBody for ConnectionTest {}

/// A delivery of a forge whose signature was valid.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = HookDelivery)]
pub struct WireHookDelivery {
    /// The forge's id of the delivery.
    #[schema(example = "72d3162e-cc78-11e3-81ab-4c9367dc0958")]
    pub id: String,
    #[schema(example = "pull_request.opened")]
    pub kind: String,
    /// What the delivery did, or why it was ignored.
    #[schema(example = "pull request 42 updated")]
    pub outcome: String,
    #[schema(format = DateTime)]
    pub received_at: String,
}

/// The response to a delivery.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HookReceipt {
    /// What the delivery did, or why it was ignored.
    #[schema(example = "sync of main scheduled")]
    pub outcome: String,
    /// Whether the same delivery arrived before. It did nothing this time.
    pub is_duplicate: bool,
}

impl ReplayableBody for HookReceipt {}
