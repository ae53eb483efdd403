//! GitHub Apps that connect repositories.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::connection::RepositoryConnection;
use crate::{Data, ReplayableBody};

/// A GitHub App that Berth created for the organization. It connects the repositories of the account that owns it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ForgeApp)]
pub struct WireForgeApp {
    #[schema(example = "app_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub id: String,
    /// Name of the app on the forge.
    #[schema(example = "Berth acme 4t7w9y")]
    pub name: String,
    /// Scheme, host and port of the forge.
    #[schema(example = "https://github.com")]
    pub origin: String,
    /// Page on the forge where the app is installed, or its repositories are chosen.
    pub install_url: String,
    /// Whether the app was seen installed.
    pub is_installed: bool,
    /// Number of repositories that are connected through the app.
    #[schema(minimum = 0)]
    pub repositories: i64,
    #[schema(format = DateTime)]
    pub created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime, nullable = false)]
    pub deleted_at: Option<String>,
}

impl ReplayableBody for WireForgeApp {}

/// An app that was created, and the repository for which an admin started to create it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreatedForgeApp {
    #[serde(flatten)]
    pub app: WireForgeApp,
    #[schema(example = "rep_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub repository_id: String,
}

impl ReplayableBody for CreatedForgeApp {}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ForgeAppNew {
    /// The value of `state` with which the forge redirected the browser.
    #[schema(max_length = 200)]
    pub state: String,
    /// The value of `code` with which the forge redirected the browser.
    #[schema(max_length = 200)]
    pub code: String,
}

#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct AppConnectionNew {
    /// Whether the repository's owner is a user. Otherwise it is an organization. Needed only if the organization has no
    /// app on this forge yet.
    pub is_personal: Option<bool>,
}

/// What is left to do to connect a repository through a GitHub App.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum AppConnectionStatus {
    Connected,
    /// Install the app for the repository at `url`, and repeat the request.
    InstallationRequired,
    /// Open `url` in a browser to create the app.
    AppRequired,
}

/// The result of connecting a repository through a GitHub App.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppConnection {
    pub status: AppConnectionStatus,
    /// The page to open. Null if the repository is connected, and in a replayed response.
    pub url: Option<String>,
    /// The connection, if the repository is connected.
    pub connection: Option<RepositoryConnection>,
}

impl ReplayableBody for AppConnection {
    const SHOWS_ONCE: bool = true;

    fn to_replay_json(&self) -> serde_json::Result<String> {
        serde_json::to_string(&Data { data: Self { url: None, ..self.clone() } })
    }
}
