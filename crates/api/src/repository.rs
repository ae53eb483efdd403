//! Repositories, the source of pipeline definitions.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ReplayableBody;
use crate::pipeline::Diagnostic;

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Repository)]
pub struct WireRepository {
    #[schema(example = "rep_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub id: String,
    #[schema(example = "https://git.acme.test/shop.git")]
    pub url: String,
    /// Name of the organization secret used to authenticate.
    pub credential: Option<String>,
    pub poll_seconds: i64,
    /// Whether the mirror is partial: the content of files is fetched only when it is needed.
    pub is_partial: bool,
    pub default_branch: Option<String>,
    /// Head commit of the default branch.
    pub head: Option<String>,
    /// When it was last fetched successfully.
    #[schema(format = DateTime)]
    pub last_synced_at: Option<String>,
    /// Why it could not be fetched.
    pub error: Option<String>,
    /// Why statuses or deployments cannot be written to the forge at the moment.
    pub forge_error: Option<String>,
    /// Definition files that could not be used at the last sync.
    pub problems: Vec<RepositoryProblem>,
    pub pipelines: Vec<RepositoryPipeline>,
    #[schema(format = DateTime)]
    pub created_at: String,
    #[schema(format = DateTime)]
    pub updated_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime, nullable = false)]
    pub deleted_at: Option<String>,
}

impl ReplayableBody for WireRepository {}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RepositoryProblem {
    #[schema(example = ".berth/shop/pipeline.yaml")]
    pub path: String,
    pub message: String,
    #[schema(value_type = Vec<Diagnostic>)]
    pub diagnostics: Vec<serde_json::Value>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RepositoryPipeline {
    pub id: String,
    pub slug: String,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct RepositoryNew {
    /// `https://host/path`, `ssh://git@host/path`, `git@host:path`, or an absolute path if the server allows it.
    #[schema(max_length = 1024, example = "https://git.acme.test/shop.git")]
    pub url: String,
    /// Name of an organization secret that holds a token, `user:password`, or an SSH private key.
    #[schema(pattern = "^([A-Za-z_][A-Za-z0-9_]{0,127})?$")]
    pub credential: Option<String>,
    #[schema(minimum = 10, maximum = 86400, default = 60)]
    pub poll_seconds: Option<i64>,
    /// Whether the mirror is partial: the content of files is fetched only when it is needed. Cannot be changed later.
    pub is_partial: Option<bool>,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct RepositoryPatch {
    #[schema(max_length = 1024)]
    pub url: Option<String>,
    /// Name of an organization secret; an empty string removes it.
    #[schema(pattern = "^([A-Za-z_][A-Za-z0-9_]{0,127})?$")]
    pub credential: Option<String>,
    #[schema(minimum = 10, maximum = 86400)]
    pub poll_seconds: Option<i64>,
}
